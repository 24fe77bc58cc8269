package tidegauge;

import static java.nio.charset.StandardCharsets.UTF_8;
import static java.util.concurrent.TimeUnit.MILLISECONDS;
import static org.apache.kafka.common.config.ConfigDef.Importance.HIGH;
import static org.apache.kafka.common.config.ConfigDef.Range.atLeast;
import static org.apache.kafka.common.config.ConfigDef.Type.*;

import java.io.IOException;
import java.net.*;
import java.nio.file.*;
import java.util.*;
import java.util.concurrent.*;
import java.util.regex.Pattern;
import java.util.stream.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.*;
import org.apache.kafka.common.config.*;
import org.apache.kafka.common.errors.AuthorizationException;
import org.slf4j.*;

/**
 * Notes time for a producer that nobody changes: {@code interceptor.classes=tidegauge.NotingInterceptor}.
 *
 * <p>A note is a promise about the <b>Kafka timestamps</b> of this producer's records: none behind the noted position
 * is below the noted time. Readers follow {@code event_time="timestamp"}. It promises nothing about the value.
 * The settings stand in the producer's configuration, as text or numbers; docs/how-to/unchanged-producers.md explains
 * them.
 *
 * <p>A wrong setting raises {@link ConfigException} where the producer is made. Later trouble never reaches the
 * producer: it is logged once a minute, and what failed is tried again. The constructor of the producer waits at most
 * 5 s for the registration, so that its first records are promised, and {@code close()} at most 5 s for a last note.
 *
 * <p>Limits. Let it be the last of {@code interceptor.classes}: one behind it may change its timestamps. Without a
 * bound, a record with an older timestamp of the application is sent, and is late. With {@code acks=0} or {@code
 * LogAppendTime} nothing is noted. A record that failed may be stored all the same, so it holds the time until the ends
 * of the topic were read, and once more {@code request.timeout.ms} later. It is late if it is stored later still, or if
 * only a leader that was lost had it. A record whose end is never reported (a serializer threw an {@code Error}) holds
 * the time for {@code max.block.ms} + {@code delivery.timeout.ms} + 10 s; a slower serializer makes its record late.
 */
public final class NotingInterceptor<K, V> implements ProducerInterceptor<K, V> {
  private static final Logger LOG = LoggerFactory.getLogger(NotingInterceptor.class);
  private static final String NAME = "[A-Za-z0-9][A-Za-z0-9._-]{0,254}";
  private static final int WAIT_MS = 5_000, ANSWER_MS = 10_000, LOG_EVERY_MS = 60_000;
  private static final long NEVER = Long.MIN_VALUE, ENDLESS = Long.MAX_VALUE;
  private static final ConfigDef SETTINGS = new ConfigDef()
      .define("tidegauge.url", STRING, HIGH, "the service, or its controllers with commas between")
      .define("tidegauge.topics", STRING, HIGH, "topics with commas between, each TOPIC or TOPIC=SCOPE/STREAM")
      .define("tidegauge.scope", STRING, "kafka", HIGH, "of the streams of topics that name none")
      .define("tidegauge.writer", STRING, null, HIGH, "the writer's name")
      .define("tidegauge.token", PASSWORD, "", HIGH, "bearer token")
      .define("tidegauge.token.file", STRING, null, HIGH, "file of the bearer token")
      .define("tidegauge.every.ms", LONG, 1_000, atLeast(1), HIGH, "how often it notes")
      .define("tidegauge.bound.ms", LONG, null, HIGH, "by how much timestamps of the application fall")
      .define("tidegauge.leave", BOOLEAN, false, HIGH, "whether the writer leaves at close()");
  private final Map<String, Topic> topics = new LinkedHashMap<>();
  private AbstractConfig settings;
  private Map<String, Object> kafka;
  private List<String> urls;
  private String writer;
  private Long boundMs; // null: the interceptor gives the timestamps
  private long everyMs, requestMs, endsWithinMs; // so long after it was sent a record has ended: Kafka guarantees it
  private ScheduledExecutorService thread;

  @Override public void configure(Map<String, ?> configs) {
    kafka = new HashMap<>(configs);
    settings = new AbstractConfig(SETTINGS, kafka, false);
    urls = List.of(settings.getString("tidegauge.url").split("/*\\s*(,\\s*|$)"));
    urls.forEach(url -> check("tidegauge.url", url, url.matches("https?://[^@?#\\s]+"), "write http://HOST:PORT"));
    String id = Objects.toString(kafka.get("client.id"), "");
    boolean isMade = id.matches("producer-\\d+") || id.equals("producer-" + kafka.get("transactional.id"));
    writer = Objects.requireNonNullElse(settings.getString("tidegauge.writer"), isMade ? "" : id);
    check("tidegauge.writer", writer.isEmpty() ? id : writer, writer.matches(NAME), "set it, or client.id, to a name "
        + "that survives restarts and that no other running producer has: letters, digits, and . _ - behind the first");
    everyMs = settings.getLong("tidegauge.every.ms");
    boundMs = settings.getLong("tidegauge.bound.ms");
    check("tidegauge.bound.ms", boundMs, boundMs == null || boundMs >= 0, "write a number of milliseconds from 0 on");
    var producer = new AbstractConfig(ProducerConfig.configDef(), kafka, false);
    requestMs = producer.getInt("request.timeout.ms");
    long sendMs = Math.max(producer.getInt("delivery.timeout.ms"), producer.getLong("linger.ms") + requestMs);
    endsWithinMs = Math.min(producer.getLong("max.block.ms"), ENDLESS / 2) + sendMs + 10_000;
    for (String topic : settings.getString("tidegauge.topics").split("\\s*,\\s*")) {
      String[] pair = topic.split("\\s*=\\s*", 2);
      String stream = pair.length == 2 ? pair[1] : settings.getString("tidegauge.scope") + "/" + pair[0];
      check("tidegauge.topics", topic, stream.matches(NAME + "/" + NAME), "write TOPIC, or TOPIC=SCOPE/STREAM");
      topics.put(pair[0], new Topic(pair[0], stream));
    }
    if (producer.getString("acks").equals("0")) {
      LOG.warn("nothing is noted for {}: with acks=0 nobody knows what is stored; set acks=all", topics.keySet());
      topics.clear();
      return;
    }
    thread = Executors.newSingleThreadScheduledExecutor(work -> {
      var daemon = new Thread(work, "tidegauge-" + writer);
      daemon.setDaemon(true);
      return daemon;
    });
    forAll(Topic::register); // nobody waits for a writer before it is registered: its records could be late
    Runnable notes = () -> topics.values().forEach(topic -> topic.attempt(Topic::note));
    thread.scheduleWithFixedDelay(notes, 0, everyMs, MILLISECONDS);
  }

  @Override public ProducerRecord<K, V> onSend(ProducerRecord<K, V> record) {
    Topic topic = topics.get(record.topic());
    long time = topic == null ? NEVER : topic.sent(record.timestamp(), System.currentTimeMillis());
    return time == NEVER || record.timestamp() != null ? record : new ProducerRecord<>(
        record.topic(), record.partition(), time, record.key(), record.value(), record.headers());
  }

  @Override public void onAcknowledgement(RecordMetadata stored, Exception failure) {
    Topic topic = stored == null ? null : topics.get(stored.topic());
    if (topic != null) topic.ended(stored, failure);
  }

  @Override public void close() {
    if (thread == null || thread.isShutdown()) return;
    forAll(Topic::end);
    thread.shutdownNow();
  }

  private void forAll(Work<Topic> work) {
    try {
      thread.submit(() -> topics.values().forEach(topic -> topic.attempt(work))).get(WAIT_MS, MILLISECONDS);
    } catch (TimeoutException | ExecutionException slow) {
      LOG.warn("{} or Kafka did not answer within {} ms; the producer goes on", urls, WAIT_MS);
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
    }
  }

  private static void check(String setting, Object value, boolean isRight, String cure) {
    if (!isRight) throw new ConfigException(setting, value, cure);
  }
  private static long nowMs() { return TimeUnit.NANOSECONDS.toMillis(System.nanoTime()); }

  /** Asks the controllers in turn until one answers that holds the database; who failed is asked last from then on. */
  private String post(String path, String body) throws IOException {
    IOException failure = null;
    for (String url : urls) {
      try {
        Answer answer = ask(url + path, body);
        if (answer.status == 307) answer = ask(holder(url, answer, path) + path, body);
        if (answer.status < 300) return answer.text;
        if (answer.status >= 400 && answer.status < 500) throw new Refusal(answer.status + " " + answer.text);
        throw new IOException(url + " answers " + answer.status + " " + answer.text);
      } catch (IOException away) {
        failure = away;
        urls = Stream.concat(urls.stream().filter(other -> other != url), Stream.of(url)).toList();
      }
    }
    throw failure;
  }

  /** Returns the address of the holder that a standby names, if that has the same database; it got no token yet. */
  private String holder(String standby, Answer answer, String path) throws IOException {
    String holder = String.valueOf(answer.location).replace(path, "");
    boolean isSafe = holder.startsWith(standby.startsWith("https:") ? "https:" : "http");
    String named = isSafe ? ask(holder + "/readyz", null).database : "unknown, and no token is sent there";
    if (isSafe && named != null && named.equals(answer.database)) return holder;
    throw new IOException("%s stands by for %s (its --advertise-url), whose database is %s and not %s"
        .formatted(standby, holder, named, answer.database));
  }

  private Answer ask(String url, String body) throws IOException {
    var http = (HttpURLConnection) URI.create(url).toURL().openConnection();
    http.setInstanceFollowRedirects(false);
    http.setConnectTimeout(WAIT_MS);
    http.setReadTimeout(ANSWER_MS);
    if (body != null) {
      String file = settings.getString("tidegauge.token.file"), token = settings.getPassword("tidegauge.token").value();
      if (file != null) token = Files.readString(Path.of(file)).trim();
      check("tidegauge.token", "(hidden)", token.matches("[\\w.~+/-]*=*"), "it has a character that no token has");
      if (!token.isEmpty()) http.setRequestProperty("authorization", "Bearer " + token);
      http.setRequestProperty("content-type", "application/json");
      http.setDoOutput(true);
      http.getOutputStream().write(body.getBytes(UTF_8));
    }
    int status = http.getResponseCode();
    try (var text = status < 400 ? http.getInputStream() : http.getErrorStream()) {
      String said = text == null ? "" : new String(text.readAllBytes(), UTF_8);
      return new Answer(status, said, http.getHeaderField("Location"), http.getHeaderField("Tidegauge-Database"));
    }
  }

  private static String found(String pattern, String json) {
    var match = Pattern.compile(pattern).matcher(json);
    return match.find() ? match.group(1) : "";
  }

  private interface Work<T> { void of(T topic) throws Exception; }
  private record Answer(int status, String text, String location, String database) {}
  private static final class Refusal extends RuntimeException { Refusal(String problem) { super(problem); } }

  /** Records that got their timestamps between two notes. */
  private static final class Span {
    final long from;
    final TreeMap<Long, Integer> chosen = new TreeMap<>(); // how many have each timestamp that the application gave
    long closedMs;
    int open, given; // how many have not ended, and how many of these have a timestamp that the interceptor gave

    Span(long from) { this.from = from; }

    /** Finds the greatest timestamp up to one that holds the time; {@code NEVER} if there is none. */
    long floor(long time) {
      Long floor = chosen.floorKey(time);
      return Math.max(given > 0 && from <= time ? from : NEVER, floor == null ? NEVER : floor);
    }

    boolean end(long time) {
      if (time == NEVER) return false;
      if (chosen.containsKey(time)) chosen.compute(time, (same, count) -> count == 1 ? null : count - 1);
      else given--;
      open--;
      return true;
    }

    /** Finds the least timestamp that holds the time; what is below the noted one is late already. */
    long least(long noted) {
      Long least = chosen.ceilingKey(noted);
      return Math.min(given > 0 ? from : ENDLESS, least == null ? ENDLESS : least);
    }
  }

  /** One topic and its stream. The lock guards what the producer's threads and the thread of notes share. */
  private final class Topic {
    final String name, stream, calls;
    final String registration = UUID.randomUUID().toString();
    final Map<String, Long> loggedMs = new HashMap<>();
    final Deque<Span> spans = new ArrayDeque<>();
    final Map<Integer, Long> reached = new HashMap<>(); // the offset behind the last record known to be stored
    long open, failed; // how many records have not ended, and how many of these have failed: nobody knows which
    long failing = ENDLESS; // the least time of failed records for which the ends are still to be read
    long doubted = ENDLESS, doubtReadMs; // that of those for which they are to be read twice, and when they first were
    long lostMs = NEVER, lostNext, older; // when a count was wrong, and how many sent before may end after it
    long next = System.currentTimeMillis(); // no record gets a lower timestamp
    long greatest = NEVER, late = NEVER; // timestamp so far, each taken for at most the clock; one below the noted time
    volatile long noted = NEVER;
    volatile boolean needsEnds = true; // only the thread of notes takes it back
    boolean stopped;
    long ranMs, awakeMs = nowMs(), readAfterMs; // how long this process has run: while it is suspended, nothing ends
    String incarnation, streamId;
    Uuid topicId;

    Topic(String name, String stream) {
      this.name = name;
      this.stream = stream;
      calls = "/v1/streams/" + stream + "/writers/" + writer + "/";
      spans.add(new Span(next));
    }

    /** Counts a record, and returns the timestamp that it gets; {@code NEVER} if nothing is noted any more. */
    synchronized long sent(Long chosen, long clock) {
      if (stopped) return NEVER;
      long time = chosen == null ? next = Math.max(next, clock) : chosen;
      Span span = spans.getLast();
      if (chosen == null) span.given++;
      else span.chosen.merge(chosen, 1, Integer::sum);
      span.open++;
      open++;
      if (time < noted) late = time;
      greatest = Math.max(greatest, Math.min(time, clock));
      return time;
    }

    synchronized void ended(RecordMetadata stored, Exception failure) {
      // A send in a wrong state fails, but its record is in a batch by then, which reports its end as well.
      var kind = failure == null ? null : failure.getClass();
      if (stopped || failure instanceof IllegalStateException || kind == KafkaException.class) return;
      boolean mayBeOld = older > 0 && ranMs - lostMs <= endsWithinMs;
      mayBeOld &= failure != null || stored.timestamp() < lostNext;
      boolean fits = failure == null && !mayBeOld && end(stored.timestamp());
      if (failure != null) {
        failing = mayBeOld ? NEVER : Math.min(failing, least());
        if (!mayBeOld) failed++;
      } else {
        // Without an offset nobody knows where it is; behind a higher one the topic may have been made again.
        long behind = stored.offset() + 1;
        if (!stored.hasOffset() || reached.merge(stored.partition(), behind, Math::max) > behind) needsEnds = true;
      }
      if (fits) open--;
      else if (mayBeOld) older--;
      if (!mayBeOld && (failure == null && !fits || failed > open)) {
        older = Math.max(0, open - failed);
        lostMs = ranMs;
        needsEnds = true;
        lostNext = ++next; // no span from now on has a timestamp that was given before
      } else if (failed == 0 || failed < open) {
        return;
      }
      spans.clear();
      spans.add(new Span(next));
      open = failed = 0;
    }

    /** Ends the greatest timestamp up to one: a batch that was repeated is acknowledged with its greatest for all. */
    private boolean end(long time) {
      Span found = Collections.max(spans, Comparator.comparingLong(span -> span.floor(time))); // or the oldest
      return found.end(found.floor(time));
    }

    private synchronized Map<Integer, Long> reach(Map<Integer, Long> offsets) {
      offsets.forEach((partition, offset) -> reached.merge(partition, offset, Math::max));
      return Map.copyOf(reached);
    }

    private long ranMs() { return ranMs + Math.min(nowMs() - awakeMs, 2 * everyMs + 1_000); }
    private long least() { return spans.stream().mapToLong(span -> span.least(noted)).min().orElse(ENDLESS); }

    void register() throws Exception {
      if (incarnation != null) return;
      String answer = post(calls + "register", "{\"registration_id\":\"" + registration + "\"}");
      var position = Pattern.compile("\"(\\d+)\" ?: ?(\\d+)").matcher(found("\"position\" ?: ?\\{([^}]*)", answer));
      while (position.find()) reach(Map.of(Integer.valueOf(position.group(1)), Long.valueOf(position.group(2))));
      needsEnds = true; // they cover what a former process wrote, which cannot note any more
      streamId = found("\"stream_id\" ?: ?\"([^\"]+)", answer);
      incarnation = found("\"incarnation\" ?: ?(\\d+)", answer);
    }

    void note() throws Exception {
      register();
      long time;
      boolean isLost, settles, readsEnds;
      Map<Integer, Long> position;
      synchronized (this) { // time and position are of one moment
        ranMs = ranMs();
        awakeMs = nowMs();
        long clock = Math.max(next, System.currentTimeMillis());
        next = clock + 1;
        spans.getLast().closedMs = ranMs;
        for (Span span : spans) {
          if (span.open == 0 || ranMs - span.closedMs <= endsWithinMs) continue;
          open -= span.open;
          failed = Math.max(0, failed - span.open); // all that failed may be of this one
          span.open = 0;
          needsEnds = true;
        }
        spans.removeIf(span -> span.open == 0);
        spans.add(new Span(next));
        if (doubted == ENDLESS) {
          doubted = failing;
          failing = ENDLESS;
          doubtReadMs = NEVER;
        }
        isLost = lostMs != NEVER && ranMs - lostMs <= endsWithinMs;
        settles = doubtReadMs != NEVER && ranMs - doubtReadMs >= requestMs;
        readsEnds = !isLost && (needsEnds || settles || doubted != ENDLESS && doubtReadMs == NEVER);
        if (readsEnds && ranMs < readAfterMs || boundMs != null && greatest == NEVER) return;
        time = Math.min(boundMs == null ? clock : greatest - boundMs, least());
        time = Math.min(time, Math.min(failing, settles ? ENDLESS : doubted));
        time = isLost ? noted : Math.max(noted, time);
        if (readsEnds) needsEnds = false;
        else noted = time;
        position = Map.copyOf(reached);
      }
      if (late > NEVER && !loggedMs.containsKey("late")) log("late", late + " is late; set tidegauge.bound.ms to more");
      if (isLost) log("lost", "acknowledgements do not fit what was sent: is this the last interceptor?");
      if (readsEnds) {
        try {
          Map<Integer, Long> ends = readEnds();
          position.forEach((partition, offset) -> check("the end of partition " + partition, ends.get(partition),
              ends.getOrDefault(partition, 0L) >= offset, "it was beyond " + offset + ": if the topic was made again, "
              + "make stream " + stream + " again, too"));
          position = reach(ends);
        } catch (Exception unread) {
          needsEnds = true;
          readAfterMs = ranMs() + WAIT_MS;
          if (noted != NEVER) report("note-time", noted, Map.of()); // it is not silent
          throw unread;
        }
        if (settles) doubted = ENDLESS;
        else if (doubtReadMs == NEVER) doubtReadMs = ranMs();
        noted = time;
      }
      if (stopped) report("leave", NEVER, Map.of());
      else if (time != NEVER) report("note-time", time, position);
    }

    void end() throws Exception {
      if (settings.getBoolean("tidegauge.leave")) needsEnds = true;
      note();
      if (settings.getBoolean("tidegauge.leave") && !stopped) report("leave", noted, reach(Map.of()));
    }

    private void report(String verb, long time, Map<Integer, Long> position) throws IOException {
      String offsets = position.entrySet().stream().map(it -> "\"" + it.getKey() + "\":" + it.getValue())
          .collect(Collectors.joining(",", "{", "}"));
      String noted = time == NEVER ? "" : "\"time\":" + time + ",\"position\":" + offsets + ",";
      post(calls + verb + "?stream_id=" + streamId, "{" + noted + "\"incarnation\":" + incarnation + "}");
    }

    private Map<Integer, Long> readEnds() throws Exception {
      var config = new HashMap<>(kafka);
      config.remove(ProducerConfig.INTERCEPTOR_CLASSES_CONFIG);
      config.putAll(Map.of("request.timeout.ms", ANSWER_MS, "default.api.timeout.ms", ANSWER_MS));
      try (Admin admin = Admin.create(config)) {
        var topic = admin.describeTopics(List.of(name)).allTopicNames().get().get(name);
        var itself = new ConfigResource(ConfigResource.Type.TOPIC, name);
        var settings = admin.describeConfigs(List.of(itself)).all().get().get(itself);
        if (settings.get("message.timestamp.type").value().equals("LogAppendTime")) {
          stop("its message.timestamp.type is LogAppendTime; set CreateTime, and start the producer again");
        } else if (topicId != null && !topicId.equals(topic.topicId())) {
          stop("it was made again; delete and create stream " + stream + ", too, and start the producer again");
        }
        topicId = topic.topicId();
        var latest = topic.partitions().stream()
            .collect(Collectors.toMap(it -> new TopicPartition(name, it.partition()), it -> OffsetSpec.latest()));
        return admin.listOffsets(latest).all().get().entrySet().stream()
            .collect(Collectors.toMap(it -> it.getKey().partition(), it -> it.getValue().offset()));
      }
    }

    private void stop(String why) {
      LOG.error("nothing more is noted for topic {} by {}, and its records may be late: {}", name, writer, why);
      synchronized (this) { stopped = true; spans.clear(); } // what logs may send
    }

    void attempt(Work<Topic> work) {
      try {
        if (!stopped) work.of(this);
      } catch (Refusal refusal) {
        String code = found("\"code\" ?: ?\"(\\w+)", refusal.getMessage());
        if (code.equals("writer_fenced")) stop("another process has registered this writer; set tidegauge.writer");
        if (code.equals("unknown_stream") || code.equals("stream_replaced")) incarnation = null;
        log(code, refusal.getMessage());
      } catch (Exception failure) {
        boolean isDenied = failure.getCause() instanceof AuthorizationException;
        log(failure.getClass().getName(), failure + (isDenied ? ": allow its user Describe, DescribeConfigs" : ""));
      }
    }

    private void log(String kind, String what) {
      if (stopped || nowMs() - loggedMs.getOrDefault(kind, nowMs() - LOG_EVERY_MS) < LOG_EVERY_MS) return;
      loggedMs.put(kind, nowMs());
      String cure = "";
      if (kind.equals("unknown_stream")) cure = ": tidegauge create %s --log external --segments " + count();
      if (kind.equals("invalid_position")) cure = ": tidegauge configure %s --max-segments " + count();
      LOG.warn("topic {}, writer {} of stream {}: {}{}", name, writer, stream, what, cure.formatted(stream));
    }

    private String count() {
      try {
        return String.valueOf(readEnds().size());
      } catch (Exception unread) {
        return "PARTITIONS";
      }
    }
  }
}
