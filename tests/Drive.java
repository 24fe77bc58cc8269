import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerInterceptor;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serializer;
import tidegauge.NotingInterceptor;

/** A producer that does what it reads, line by line: {@code Drive SETTINGS-FILE TOPIC}. */
public final class Drive {
  /** Serializes text, but for one that it cannot stand. */
  public static final class Text implements Serializer<String> {
    @Override
    public byte[] serialize(String topic, String value) {
      if ("error".equals(value)) {
        throw new StackOverflowError("planted");
      }
      return value == null ? null : value.getBytes(StandardCharsets.UTF_8);
    }
  }

  /** Changes timestamps, as an interceptor behind that of the notes must not. */
  public static final class Changing implements ProducerInterceptor<String, String> {
    @Override
    public void configure(Map<String, ?> configs) {}

    @Override
    public ProducerRecord<String, String> onSend(ProducerRecord<String, String> record) {
      return new ProducerRecord<>(
          record.topic(), record.partition(), record.timestamp() - 60_000, record.key(), record.value());
    }

    @Override
    public void onAcknowledgement(RecordMetadata stored, Exception failure) {}

    @Override
    public void close() {}
  }

  private static final Properties settings = new Properties();
  private static KafkaProducer<String, String> producer;
  private static String topic;
  private static final AtomicInteger stored = new AtomicInteger();
  private static final AtomicInteger failed = new AtomicInteger();
  private static volatile boolean goesOn = true;

  public static void main(String[] args) throws Exception {
    try (var file = Files.newBufferedReader(Path.of(args[0]))) {
      settings.load(file);
    }
    topic = args[1];
    producer = new KafkaProducer<>(settings, new Text(), new Text());
    System.out.println("made");
    var lines = new BufferedReader(new InputStreamReader(System.in));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      String[] words = line.split(" ");
      String outcome = "done";
      try {
        run(words);
      } catch (Throwable thrown) {
        outcome = thrown.getClass().getSimpleName();
      }
      System.out.println(outcome + " " + stored + " " + failed);
    }
    producer.close();
  }

  private static void run(String[] words) throws Exception {
    long number = words.length > 1 ? Long.parseLong(words[1]) : 0;
    switch (words[0]) {
      case "send" -> sendMany(number, "x");
      case "large" -> send("x".repeat((int) number), null, Drive::count);
      case "error" -> send("error", null, Drive::count);
      case "at" -> send("x", System.currentTimeMillis() + number, Drive::count);
      case "jump" -> sendBackAndForth(number, Long.parseLong(words[2]));
      case "again" -> sendAgain(number);
      case "again-large" -> sendAgainWhatFails((int) number);
      case "threads" -> sendFromThreads(() -> sendWithPauses(number));
      case "mixed" -> sendFromThreads(() -> sendMixed(number, Integer.parseInt(words[2])));
      case "steady" -> new Thread(() -> sendSteadily(number)).start();
      case "overlap" -> overlap(number);
      case "count" -> {}
      case "halt" -> goesOn = false;
      case "flush" -> producer.flush();
      case "init" -> producer.initTransactions();
      case "begin" -> producer.beginTransaction();
      case "commit" -> producer.commitTransaction();
      case "abort" -> producer.abortTransaction();
      case "close" -> producer.close();
      default -> throw new IllegalArgumentException(words[0]);
    }
  }

  private static void send(String value, Long time, Callback callback) {
    producer.send(new ProducerRecord<>(topic, null, time, null, value), callback);
  }

  private static void count(Object metadata, Exception failure) {
    (failure == null ? stored : failed).incrementAndGet();
  }

  private static void sendMany(long count, String value) {
    for (int number = 0; number < count; number++) {
      send(value, null, Drive::count);
    }
  }

  /** Sends so many records whose timestamps fall by up to so many ms. */
  private static void sendBackAndForth(long count, long bound) {
    for (int number = 0; number < count; number++) {
      send("x", System.currentTimeMillis() - number * 7919L % bound, Drive::count);
      LockSupport.parkNanos(1_000_000);
    }
  }

  private static void sendAgain(long count) {
    for (int number = 0; number < count; number++) {
      send("x", null, (metadata, failure) -> send("again", null, Drive::count));
      LockSupport.parkNanos(1_000_000);
    }
  }

  private static void sendAgainWhatFails(int size) {
    send("x".repeat(size), null, (metadata, failure) -> send("again", null, Drive::count));
  }

  /** Lets another interceptor hear of an end that fits nothing, and then of records of which one is always under way. */
  private static void overlap(long millis) {
    var noting = new NotingInterceptor<String, String>();
    var named = new HashMap<String, Object>(Map.of("tidegauge.writer", "overlapping"));
    named.putAll(Map.of("key.serializer", Text.class, "value.serializer", Text.class));
    settings.forEach((name, value) -> named.putIfAbsent((String) name, value));
    noting.configure(named);
    var before = noting.onSend(new ProducerRecord<>(topic, "x"));
    noting.onAcknowledgement(stored(0), null);
    for (long end = System.currentTimeMillis() + millis; System.currentTimeMillis() < end; ) {
      var record = noting.onSend(new ProducerRecord<>(topic, "x"));
      noting.onAcknowledgement(stored(before.timestamp()), null);
      before = record;
      LockSupport.parkNanos(1_000_000);
    }
    noting.onAcknowledgement(stored(before.timestamp()), null);
    noting.close();
  }

  private static RecordMetadata stored(long timestamp) {
    return new RecordMetadata(new TopicPartition(topic, 0), -1, -1, timestamp, -1, -1);
  }

  private static void sendFromThreads(Runnable work) throws InterruptedException {
    var threads = new Thread[4];
    for (int number = 0; number < threads.length; number++) {
      threads[number] = new Thread(work);
      threads[number].start();
    }
    for (Thread thread : threads) {
      thread.join();
    }
  }

  private static void sendWithPauses(long count) {
    for (int number = 0; number < count; number++) {
      send("x", null, Drive::count);
      LockSupport.parkNanos(number % 17 * 10_000L);
    }
  }

  /** Sends with and without timestamps, what is too large, and what is sent again by its callback. */
  private static void sendMixed(long count, int bound) {
    var random = ThreadLocalRandom.current();
    for (int number = 0; number < count; number++) {
      long time = System.currentTimeMillis() - random.nextInt(bound);
      int kind = random.nextInt(100);
      try {
        if (kind < 5) {
          sendAgainWhatFails(2_000);
        } else if (kind < 10) {
          sendAgain(1);
        } else {
          send("x", kind < 50 ? null : time, Drive::count);
        }
      } catch (RuntimeException failure) {
        failed.incrementAndGet();
      }
      LockSupport.parkNanos(random.nextInt(4_000_000));
    }
  }

  private static void sendSteadily(long perSecond) {
    while (goesOn) {
      try {
        send("x", null, Drive::count);
      } catch (RuntimeException wrong) {
        failed.incrementAndGet();
      }
      LockSupport.parkNanos(1_000_000_000 / perSecond);
    }
  }
}
