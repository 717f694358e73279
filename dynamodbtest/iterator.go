package dynamodbtest

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"strings"
	"time"
)

// iteratorLife is how long an iterator is valid after it was issued ("GetShardIterator").
const iteratorLife = 15 * time.Minute

// iterator is the content of an iterator's opaque text: a position in a shard.
type iterator struct {
	arn      string
	shard    string
	issued   time.Time
	epoch    uint64
	position int64 // number of the shard's records before this position; horizon: any number
}

// horizon is the position of an iterator that begins at the oldest record at the time of its use.
// Records that are trimmed between its issue and its use do not matter.
const horizon = -1

const iteratorVersion = "|1|"

// encode makes the iterator's text. As with DynamoDB, the text has the stream's ARN. It also has a
// payload with a checksum, so that an invented or truncated iterator is detected.
func (it iterator) encode(seed uint64) string {
	payload := make([]byte, 0, 96)
	payload = binary.BigEndian.AppendUint64(payload, uint64(it.issued.UnixNano()))
	payload = binary.BigEndian.AppendUint64(payload, it.epoch)
	payload = binary.BigEndian.AppendUint64(payload, uint64(it.position))
	payload = append(payload, it.shard...)
	payload = append(payload, iteratorSum(it.arn, payload, seed)...)
	return it.arn + iteratorVersion + base64.StdEncoding.EncodeToString(payload)
}

const (
	iteratorHeader  = 24
	iteratorSumSize = 16
)

func decodeIterator(text string, seed uint64) (iterator, error) {
	refused := validation("Invalid ShardIterator")
	arn, encoded, found := strings.Cut(text, iteratorVersion)
	if !found {
		return iterator{}, refused
	}
	payload, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil || len(payload) < iteratorHeader+iteratorSumSize {
		return iterator{}, refused
	}
	content, sum := payload[:len(payload)-iteratorSumSize], payload[len(payload)-iteratorSumSize:]
	if subtle.ConstantTimeCompare(sum, iteratorSum(arn, content, seed)) != 1 {
		return iterator{}, refused
	}
	return iterator{
		arn:      arn,
		issued:   time.Unix(0, int64(binary.BigEndian.Uint64(content))),
		epoch:    binary.BigEndian.Uint64(content[8:]),
		position: int64(binary.BigEndian.Uint64(content[16:])),
		shard:    string(content[iteratorHeader:]),
	}, nil
}

func iteratorSum(arn string, payload []byte, seed uint64) []byte {
	h := sha256.New()
	h.Write(binary.BigEndian.AppendUint64(nil, seed))
	h.Write([]byte(arn))
	h.Write(payload)
	return h.Sum(nil)[:iteratorSumSize]
}

// shardOfIterator returns the shard that an iterator names, without verification; "" if the text is
// not an iterator.
func shardOfIterator(text string) string {
	_, encoded, _ := strings.Cut(text, iteratorVersion)
	payload, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil || len(payload) < iteratorHeader+iteratorSumSize {
		return ""
	}
	return string(payload[iteratorHeader : len(payload)-iteratorSumSize])
}
