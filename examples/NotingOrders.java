import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.UUID;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * A producer in Java that notes time: register, note-time, the same again as a beat, leave.
 *
 * <p>Java 17 and kafka-clients are all it needs. It sends from one thread, without transactions.
 */
public final class NotingOrders implements AutoCloseable {
  private static final Pattern INCARNATION = Pattern.compile("\"incarnation\": ?(\\d+)");

  private final HttpClient http = HttpClient.newHttpClient();
  private final String writer;
  private final String topic;
  private final Properties kafka;
  private final KafkaProducer<String, String> producer;
  private final long incarnation;
  /** For each partition the offset behind the last record that is known to be stored. */
  private final Map<Integer, Long> reached = new HashMap<>();
  private Exception failure;

  public NotingOrders(String brokers, String url, String stream, String name) throws Exception {
    topic = stream.substring(stream.indexOf('/') + 1);
    writer = url + "/v1/streams/" + stream + "/writers/" + name;
    kafka = new Properties();
    kafka.put("bootstrap.servers", brokers);
    producer = new KafkaProducer<>(kafka, new StringSerializer(), new StringSerializer());
    // The same id each time this call is repeated, so that a repetition fences nobody.
    String answer = call("register", "{\"registration_id\": \"" + UUID.randomUUID() + "\"}");
    var found = INCARNATION.matcher(answer);
    if (!found.find()) {
      throw new IllegalStateException("no incarnation in " + answer);
    }
    incarnation = Long.parseLong(found.group(1));
    readEnds(); // after registering: nobody else knows what a former process wrote
  }

  public void send(String key, String value, long time) {
    producer.send(new ProducerRecord<>(topic, null, time, key, value), this::acknowledged);
  }

  /** Promises that nothing older than a time will follow; covers exactly what was sent before. */
  public void noteTime(long time) throws Exception {
    producer.flush(); // a busy producer would count acknowledgements instead of waiting for them
    call("note-time", report(time));
  }

  /** Says that this producer will not return. One that restarts only closes its producer. */
  @Override
  public void close() throws Exception {
    producer.close();
    call("leave", "{\"incarnation\": " + incarnation + "}");
  }

  private synchronized void acknowledged(RecordMetadata stored, Exception error) {
    if (error == null) {
      reached.merge(stored.partition(), stored.offset() + 1, Math::max);
    } else {
      failure = error;
    }
  }

  private synchronized String report(long time) {
    if (failure != null) {
      // Send the failed records again, or give them up; then readEnds() and go on.
      throw new IllegalStateException("a record was not stored: note nothing behind it", failure);
    }
    String position =
        reached.entrySet().stream()
            .map(one -> "\"" + one.getKey() + "\": " + one.getValue())
            .collect(Collectors.joining(", ", "{", "}"));
    return "{\"time\": %d, \"position\": %s, \"incarnation\": %d}"
        .formatted(time, position, incarnation);
  }

  private void readEnds() {
    var bytes = new ByteArrayDeserializer();
    try (var consumer = new KafkaConsumer<>(kafka, bytes, bytes)) {
      List<TopicPartition> all =
          consumer.partitionsFor(topic).stream()
              .map(one -> new TopicPartition(topic, one.partition()))
              .toList();
      consumer.endOffsets(all).forEach((one, end) -> reached.merge(one.partition(), end, Math::max));
    }
  }

  /** Repeats a call until the service answers; a report that is repeated means the same. */
  private String call(String verb, String body) throws Exception {
    var request =
        HttpRequest.newBuilder(URI.create(writer + "/" + verb))
            .header("content-type", "application/json")
            .POST(HttpRequest.BodyPublishers.ofString(body))
            .build();
    while (true) {
      try {
        var answer = http.send(request, HttpResponse.BodyHandlers.ofString());
        if (answer.statusCode() < 300) {
          return answer.body();
        }
        if (answer.statusCode() < 500) {
          throw new IllegalStateException(answer.body()); // fenced, or a mistake: stop
        }
      } catch (IOException unreachable) {
        System.err.println("the service does not answer: " + unreachable);
      }
      Thread.sleep(500);
    }
  }

  public static void main(String[] args) throws Exception {
    try (var orders = new NotingOrders(args[0], args[1], args[2], "java-1")) {
      for (int number = 0; number < 1_000; number++) {
        long time = 1_704_110_400_000L + 100L * number;
        orders.send("table " + number % 9, "tea", time);
        if (number % 250 == 249) {
          orders.noteTime(time);
        }
      }
    }
  }
}
