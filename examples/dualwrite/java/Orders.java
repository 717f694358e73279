import com.google.api.gax.rpc.NotFoundException;
import com.google.bigtable.v2.CheckAndMutateRowRequest;
import com.google.cloud.bigtable.data.v2.BigtableDataClient;
import com.google.cloud.bigtable.data.v2.models.ConditionalRowMutation;
import com.google.cloud.bigtable.data.v2.models.Filters;
import com.google.cloud.bigtable.data.v2.models.Row;
import com.google.cloud.bigtable.data.v2.models.RowCell;
import com.google.cloud.bigtable.data.v2.models.TableId;
import com.google.gson.JsonParser;
import com.google.protobuf.ByteString;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.util.JsonFormat;
import java.math.BigInteger;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.SortedMap;
import java.util.TreeMap;
import software.amazon.awssdk.core.exception.SdkException;
import software.amazon.awssdk.services.dynamodb.DynamoDbClient;
import software.amazon.awssdk.services.dynamodb.model.AttributeValue;
import software.amazon.awssdk.services.dynamodb.model.DeleteItemRequest;
import software.amazon.awssdk.services.dynamodb.model.DynamoDbException;
import software.amazon.awssdk.services.dynamodb.model.PutItemRequest;
import software.amazon.awssdk.services.dynamodb.model.ReturnValue;

/**
 * Writes orders to DynamoDB and then to Bigtable, with software.amazon.awssdk:dynamodb and
 * com.google.cloud:google-cloud-bigtable. Set the DynamoDB client to one attempt: if the first attempt was
 * executed, a retry fails on its own condition.
 */
final class Orders {
  /** DynamoDB has the change, and replicator writes the row. Do not repeat the call. */
  static final class RowFollows extends RuntimeException {
    RowFollows(Throwable cause) {
      super(cause);
    }
  }

  private static final TableId TABLE = TableId.of("orders");
  private final DynamoDbClient dynamodb;
  private final BigtableDataClient bigtable;
  private String family; // the fence's family, as last read from replicator's row
  private long read; // when it was read

  Orders(DynamoDbClient dynamodb, BigtableDataClient bigtable) {
    if (System.getenv("BIGTABLE_EMULATOR_HOST") != null) {
      throw new IllegalStateException("BIGTABLE_EMULATOR_HOST is set: every write would go there");
    }
    this.dynamodb = dynamodb;
    this.bigtable = bigtable;
  }

  /**
   * Writes an item with the number that was read, or none if it is new. Returns the written item. After a
   * DynamoDbException below status 500 nothing was written: read the item again. After any other error except RowFollows,
   * read it before you repeat the call.
   */
  Map<String, AttributeValue> put(Map<String, AttributeValue> item) {
    BigInteger number = Rows.nextNumber(values(item), System.currentTimeMillis(), BigInteger.ZERO);
    Map<String, AttributeValue> written = numbered(item, number);
    Map<String, AttributeValue> old;
    try {
      old = replace(item, written);
    } catch (SdkException lost) {
      if (refused(lost) || !written.equals(get(item))) {
        throw lost;
      }
      throw new RowFollows(lost); // the row that the item left is unknown
    }
    boolean refused = write(old.isEmpty() ? null : old, written);
    return refused && !item.containsKey(Rows.ATTRIBUTE) ? raised(written) : written;
  }

  /** Writes a new item again, because its row refused it. The row may hold the higher number of a removed item. */
  private Map<String, AttributeValue> raised(Map<String, AttributeValue> item) {
    Map<String, AttributeValue> higher;
    try {
      String held = highest(item);
      String own = Rows.version(new BigInteger(item.get(Rows.ATTRIBUTE).n()), false);
      if (held.compareTo(own) < 0 || !held.equals(own) && held.startsWith(own.substring(0, 24))) {
        return item; // the row holds the same number with a position: the stream was faster
      }
      higher = numbered(item, new BigInteger(held.substring(1, 21)).add(BigInteger.ONE));
      replace(item, higher);
    } catch (RuntimeException error) { // the stream orders the item
      throw new RowFollows(error);
    }
    write(item, higher);
    return higher;
  }

  private static Map<String, AttributeValue> numbered(Map<String, AttributeValue> item, BigInteger number) {
    Map<String, AttributeValue> numbered = new HashMap<>(item);
    numbered.put(Rows.ATTRIBUTE, AttributeValue.fromN(number.toString()));
    return numbered;
  }

  /** Puts an item under the condition that it was not changed since it was read. Returns the old item. */
  private Map<String, AttributeValue> replace(Map<String, AttributeValue> read, Map<String, AttributeValue> item) {
    return dynamodb.putItem(PutItemRequest.builder().tableName(Rows.SOURCE).item(item)
        .conditionExpression(Rows.condition(values(read))).expressionAttributeNames(Map.of("#v", Rows.ATTRIBUTE))
        .expressionAttributeValues(expected(read)).returnValues(ReturnValue.ALL_OLD).build()).attributes();
  }

  /** Removes an item, given as it was read, with all attributes. It has the errors of put. */
  void delete(Map<String, AttributeValue> item) {
    Map<String, AttributeValue> old;
    try {
      old = dynamodb.deleteItem(DeleteItemRequest.builder().tableName(Rows.SOURCE).key(keyOf(item))
          .conditionExpression(Rows.condition(values(item))).expressionAttributeNames(Map.of("#v", Rows.ATTRIBUTE))
          .expressionAttributeValues(expected(item)).returnValues(ReturnValue.ALL_OLD).build()).attributes();
    } catch (SdkException lost) {
      if (refused(lost) || get(item) != null) {
        throw lost;
      }
      old = item; // the item no longer exists, so its row must be removed too
    }
    if (!old.isEmpty()) {
      write(old, null);
    }
  }

  /** Writes the rows of a change. Returns whether the row of the new item refused it. */
  private boolean write(Map<String, AttributeValue> old, Map<String, AttributeValue> item) {
    long micros = System.currentTimeMillis() * 1000;
    try {
      try {
        return send(Rows.requests(values(old), values(item), micros, fence(false)));
      } catch (NotFoundException error) {
        String risen = fence(true); // first the fence, then the right to write under it
        Map<String, AttributeValue> found = get(item != null ? item : old);
        boolean unchanged = item == null ? found == null : item.equals(found);
        return unchanged && send(Rows.requests(values(old), values(item), micros, risen));
      }
    } catch (RuntimeException | InvalidProtocolBufferException error) {
      throw new RowFollows(error);
    }
  }

  private boolean send(List<String> requests) throws InvalidProtocolBufferException {
    List<Boolean> refused = new ArrayList<>();
    for (String json : requests) {
      CheckAndMutateRowRequest.Builder request = CheckAndMutateRowRequest.newBuilder();
      JsonFormat.parser().merge(json, request);
      refused.add(bigtable.checkAndMutateRow(ConditionalRowMutation.fromProto(request.build())));
    }
    return !refused.isEmpty() && refused.get(0); // the row of the new item comes first
  }

  /** The fence's family. If there is no fence yet, it is read again after a minute. */
  private synchronized String fence(boolean anew) {
    boolean old = Rows.WITHHELD.equals(family) && System.nanoTime() - read > 60_000_000_000L;
    if (anew || old || family == null) {
      ByteString first = ByteString.copyFrom(new byte[] {(byte) 0xff});
      ByteString name = first.concat(ByteString.copyFromUtf8("_cdc~witness~" + Rows.SOURCE));
      ByteString key = name.concat(ByteString.copyFromUtf8("~".repeat(2049 - name.size())));
      Row row = bigtable.readRow(TABLE, key, Filters.FILTERS.chain()
          .filter(Filters.FILTERS.family().exactMatch("_cdc")).filter(Filters.FILTERS.qualifier().exactMatch("r")));
      String found = row == null ? "" : JsonParser.parseString(row.getCells().get(0).getValue().toStringUtf8())
          .getAsJsonObject().get("fence").getAsString();
      if (found.isEmpty()) {
        throw new IllegalStateException("no worker has prepared the target yet");
      }
      family = found;
      read = System.nanoTime();
    }
    return family;
  }

  /** The highest version that the item's row holds; empty if none. */
  private String highest(Map<String, AttributeValue> item) {
    Row row = bigtable.readRow(TABLE, Rows.rowKey(values(item)), Filters.FILTERS.chain()
        .filter(Filters.FILTERS.family().regex("_cdc|_cdc_gone")).filter(Filters.FILTERS.qualifier().exactMatch("v")));
    String highest = "";
    for (RowCell cell : row == null ? List.<RowCell>of() : row.getCells()) {
      String version = cell.getValue().toStringUtf8();
      if (version.startsWith("n") && version.compareTo(highest) > 0) {
        highest = version;
      }
    }
    return highest;
  }

  private static boolean refused(SdkException error) {
    return error instanceof DynamoDbException && ((DynamoDbException) error).statusCode() < 500;
  }

  private static Map<String, AttributeValue> expected(Map<String, AttributeValue> item) {
    AttributeValue number = item.get(Rows.ATTRIBUTE);
    return number == null ? null : Map.of(":v", number);
  }

  private static Map<String, AttributeValue> keyOf(Map<String, AttributeValue> item) {
    return Map.of("pk", item.get("pk"), "sk", item.get("sk"));
  }

  /** The current item; null if there is none. */
  private Map<String, AttributeValue> get(Map<String, AttributeValue> item) {
    Map<String, AttributeValue> found =
        dynamodb.getItem(r -> r.tableName(Rows.SOURCE).key(keyOf(item)).consistentRead(true)).item();
    return found.isEmpty() ? null : found;
  }

  private static SortedMap<String, Rows.Value> values(Map<String, AttributeValue> item) {
    if (item == null) {
      return null;
    }
    SortedMap<String, Rows.Value> values = new TreeMap<>();
    item.forEach((name, value) -> {
      switch (value.type()) {
        case S -> values.put(name, new Rows.Value("S", value.s()));
        case N -> values.put(name, new Rows.Value("N", value.n()));
        case BOOL -> values.put(name, new Rows.Value("BOOL", value.bool().toString()));
        default -> throw new IllegalArgumentException("no encoding for " + value.type());
      }
    });
    return values;
  }
}
