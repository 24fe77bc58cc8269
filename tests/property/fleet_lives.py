"""What the processes of a fleet do: servers, devices, loops of crashes, and the days and troubles.

Whoever is *always in time* speaks at least every third of a timeout while it is there, goes on well
within the limit, and is not away for longer than a tenth of a timeout: with the half of a timeout
that a gap counts at most, that is in time whatever happens to all.
"""

from collections.abc import Callable, Sequence

from tests.property.fleet import Fleet, Life, Writer

SECOND_MS, MINUTE_MS, HOUR_MS = 1_000, 60_000, 3_600_000
DAY_MS = 24 * HOUR_MS
ALWAYS_IN_TIME = ("server", "patient")


class Lives:
    """The processes of a fleet, ``size`` of each kind.

    Parameters
    ----------
    fleet
        Where they live.
    size
        How many of each kind.
    """

    def __init__(self, fleet: Fleet, size: int) -> None:
        self.fleet = fleet
        self._between = fleet.between
        self._timeout_ms, self._limit_ms = fleet.timeout_ms, fleet.limit_ms
        self.servers: list[Writer] = []
        self.others: list[Writer] = []
        self._names = 0
        for _ in range(size):
            self.servers += [self._start("server", self._server) for _ in range(2)]
            self.servers.append(self._start("patient", self._patient))
        fleet.run(MINUTE_MS)  # the others come to a stream that is there
        for _ in range(size):
            self.others.append(self._start("gateway", self._gateway))
            self.others.append(self._start("uploader", self._uploader))
            self.others.append(self._start("hoarder", self._hoarder))
            self.others.append(self._start("crash loop", self._crash_loop))
            self.others.append(self._start("crash loop that notes", self._noting_crash_loop))
            self.others.append(self._start("fast clock", self._fast_clock))
            fleet.begin(self._mortals())
            fleet.begin(self._scaling())
            fleet.begin(self._nameless_crash_loop())
        fleet.begin(self._days())
        fleet.begin(self._stalls())
        fleet.begin(self._outages())
        fleet.begin(self._crashes())
        fleet.begin(self._cuts())

    def _start(self, kind: str, life: Callable[[Writer], Life]) -> Writer:
        self._names += 1
        writer = Writer(f"{kind}-{self._names}", kind)
        self.fleet.begin(life(writer), writer, in_ms=self._between(0, MINUTE_MS))
        return writer

    def _add(self, writer: Writer) -> None:
        self.fleet.writers.setdefault(writer.name, writer)

    def _register(self, writer: Writer) -> None:
        """Register, and write only what happens from now on."""
        self._add(writer)
        self.fleet.register(writer)
        writer.promised = self.fleet.now_ms

    def _work(self, writer: Writer, *, lag_ms: int = 0) -> None:
        """Write what happened since the last time, and note how far that is."""
        self._add(writer)
        until = max(writer.promised, self.fleet.now_ms - lag_ms)
        self.fleet.write(writer, rows=self._between(0, 3), until=until)
        self.fleet.note(writer, until)

    def _pause_ms(self) -> int:
        return self._between(self._timeout_ms / 8, self._timeout_ms / 4)

    def _down_ms(self) -> int:
        return self._between(SECOND_MS, self._timeout_ms / 20)

    def _server(self, writer: Writer) -> Life:
        """Serves what comes in."""
        self._register(writer)
        yield self._down_ms()
        while True:
            self._work(writer, lag_ms=self._between(0, SECOND_MS))
            yield self._pause_ms()

    def _patient(self, writer: Writer) -> Life:
        """Has something old at times, and says so until it has written it."""
        self._register(writer)
        yield self._down_ms()
        while True:
            for _ in range(self._between(1, 40)):
                self._work(writer)
                yield self._pause_ms()
            yield from self._beat(writer, 0.3 * self._limit_ms)

    def _hoarder(self, writer: Writer) -> Life:
        """Is like the patient, but now and then longer than the limit allows."""
        self._register(writer)
        while True:
            for _ in range(self._between(1, 80)):
                self._work(writer)
                yield self._pause_ms()
            yield from self._beat(writer, 1.6 * self._limit_ms)

    def _beat(self, writer: Writer, most_ms: float) -> Life:
        ends_ms = self.fleet.now_ms + self._between(0, most_ms)
        while self.fleet.now_ms < ends_ms:
            self.fleet.note(writer, writer.promised)
            yield self._between(self._timeout_ms / 4, self._timeout_ms / 3)

    def _gateway(self, writer: Writer) -> Life:
        """Always lags by more than the others, and keeps what it has while it is cut off."""
        self._register(writer)
        while True:
            yield self._pause_ms()
            was_live = writer.live
            self._work(writer, lag_ms=self._timeout_ms // 3)
            if not was_live:
                yield 2 * SECOND_MS
                assert writer.live, "it is waited for at its first report after an outage"
                self.fleet.counts["gateways back at the first report"] += 1

    def _uploader(self, writer: Writer) -> Life:
        """Works offline for hours, and then uploads what it has, oldest first."""
        self._register(writer)
        while True:
            yield self._between(HOUR_MS, 8 * HOUR_MS)
            while writer.promised < self.fleet.now_ms - MINUTE_MS:
                until = min(writer.promised + 10 * MINUTE_MS, self.fleet.now_ms)
                self.fleet.write(writer, rows=self._between(1, 5), until=until)
                self.fleet.note(writer, until)
                yield self._between(SECOND_MS, 10 * SECOND_MS)
            for _ in range(self._between(1, 20)):
                self._work(writer)
                yield self._pause_ms()

    def _crash_loop(self, writer: Writer) -> Life:
        """Crashes as soon as it has registered, for hours; then all is well for a while."""
        while True:
            for _ in range(self._between(10, 200)):
                self._register(writer)
                yield self._between(5 * SECOND_MS, MINUTE_MS)
            self._register(writer)
            for _ in range(self._between(50, 300)):
                yield self._pause_ms()
                self._work(writer)

    def _noting_crash_loop(self, writer: Writer) -> Life:
        """Notes the time of its checkpoint, and crashes; then all is well for a while."""
        self._register(writer)
        while True:
            checkpoint = writer.promised
            for _ in range(self._between(10, 200)):
                self.fleet.register(writer)
                self.fleet.note(writer, checkpoint)
                yield self._between(5 * SECOND_MS, MINUTE_MS)
            self._register(writer)
            for _ in range(self._between(50, 300)):
                yield self._pause_ms()
                self._work(writer)

    def _fast_clock(self, writer: Writer) -> Life:
        """Is ahead by seconds, now and then by minutes, until it is restarted."""
        self._register(writer)
        while True:
            ahead_ms = self.fleet.random.choice([0, 20 * SECOND_MS, 10 * MINUTE_MS])
            for _ in range(self._between(10, 50)):
                self._work(writer, lag_ms=-ahead_ms)
                yield self._pause_ms()
            self._register(writer)

    def _mortals(self) -> Life:
        """Devices that work for a while, and die."""
        while True:
            self._start("mortal", self._mortal)
            yield self._between(HOUR_MS, 8 * HOUR_MS)

    def _mortal(self, writer: Writer) -> Life:
        for _ in range(self._between(1, 40)):
            self._work(writer)
            yield self._pause_ms()
        self.fleet.write(writer, rows=1, until=self.fleet.now_ms)

    def _scaling(self) -> Life:
        """Workers that come for a while, and leave."""
        while True:
            self._start("worker", self._worker)
            yield self._between(HOUR_MS, 4 * HOUR_MS)

    def _worker(self, writer: Writer) -> Life:
        self._register(writer)
        for _ in range(self._between(1, 20)):
            yield self._pause_ms()
            self._work(writer)
        self.fleet.leave(writer)

    def _nameless_crash_loop(self) -> Life:
        """Processes that crash as soon as they have registered, each with a name of its own."""
        while True:
            yield self._between(4 * HOUR_MS, 20 * HOUR_MS)
            for _ in range(self._between(5, 30)):
                self._start("nameless", self._nameless)
                yield self._between(5 * SECOND_MS, MINUTE_MS)

    def _nameless(self, writer: Writer) -> Life:
        self._register(writer)
        yield self._down_ms()

    def _days(self) -> Life:
        """By day there is a deploy; at night all sleep, or the servers go on alone."""
        while True:
            yield self._between(HOUR_MS, 8 * HOUR_MS)
            yield from self._deploy()
            yield 14 * HOUR_MS - self.fleet.now_ms % DAY_MS
            self.fleet.counts["nights"] += 1
            if self.fleet.random.random() < 0.5:
                self.fleet.resumes_ms = self.fleet.now_ms + 10 * HOUR_MS
            else:
                for one in self.others:
                    one.resumes_ms = self.fleet.now_ms + self._between(HOUR_MS, 12 * HOUR_MS)
            yield 10 * HOUR_MS

    def _deploy(self) -> Life:
        """Restart the servers, one after another."""
        for one in self.servers:
            yield from self._restart(one)

    def _restart(self, writer: Writer) -> Life:
        """A process dies with what it has not reported, and another one takes its place."""
        self.fleet.write(writer, rows=1, until=self.fleet.now_ms)
        down_ms = self._down_ms()
        life = self._server if writer.kind == "server" else self._patient
        self.fleet.begin(life(writer), writer, in_ms=down_ms)
        self.fleet.counts["restarts"] += 1
        yield down_ms + self._timeout_ms // 20

    def _stalls(self) -> Life:
        """Now and then everything stands still: seconds, or longer than any setting."""
        while True:
            yield self._between(HOUR_MS, 6 * HOUR_MS)
            for_ms = self._between(10 * SECOND_MS, 2 * self._limit_ms)
            self.fleet.resumes_ms = max(self.fleet.resumes_ms, self.fleet.now_ms + for_ms)
            self.fleet.counts["stalls"] += 1

    def _outages(self) -> Life:
        """The service is killed: another one is there at once, or after a while."""
        while True:
            yield self._between(10 * MINUTE_MS, 2 * HOUR_MS)
            if self.fleet.random.random() < 0.1:
                self.fleet.go_down(self._between(SECOND_MS, 2 * self._timeout_ms))
            else:
                self.fleet.take_over()

    def _crashes(self) -> Life:
        """A server crashes."""
        while True:
            yield self._between(HOUR_MS, 6 * HOUR_MS)
            yield from self._restart(self._one_of(self.servers))

    def _cuts(self) -> Life:
        """One of the others is cut off: for a moment, or for longer than the timeout."""
        while True:
            yield self._between(5 * MINUTE_MS, HOUR_MS)
            for_ms = self._between(0, 6 * self._timeout_ms)
            gateways = [one for one in self.others if one.kind == "gateway"]
            writer = self._one_of(self.fleet.random.choice([gateways, self.others]))
            writer.resumes_ms = max(writer.resumes_ms, self.fleet.now_ms + for_ms)
            self.fleet.counts["cuts"] += 1

    def _one_of(self, writers: Sequence[Writer]) -> Writer:
        return self.fleet.random.choice(writers)
