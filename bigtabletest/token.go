package bigtabletest

import (
	"encoding/base64"
	"encoding/json"
	"time"

	"cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// position is what a continuation token holds. Clients must not read it.
type position struct {
	Epoch uint64 `json:"e"` // of the change stream
	Start []byte `json:"s"` // bytes, because keys need not be text
	End   []byte `json:"n"`
	Index int    `json:"i"` // of the first record that was not delivered
	Low   int64  `json:"l"` // no undelivered record is older, in microseconds
}

func (p position) partition() Partition { return Partition{Start: string(p.Start), End: string(p.End)} }

func (p position) low() time.Time { return time.UnixMicro(p.Low) }

func (p position) encode() string {
	text, err := json.Marshal(p)
	if err != nil {
		panic(err) // numbers and bytes can always be encoded
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

// proto returns the token with the partition that it applies to.
func (p position) proto() *bigtablepb.StreamContinuationToken {
	return &bigtablepb.StreamContinuationToken{Partition: p.partition().proto(), Token: p.encode()}
}

// positionOf decodes a token. The token must come with the partition for which it was issued, so a
// client cannot use it for another range.
func positionOf(token *bigtablepb.StreamContinuationToken) (position, error) {
	var p position
	text, err := base64.RawURLEncoding.DecodeString(token.GetToken())
	if err == nil {
		err = json.Unmarshal(text, &p)
	}
	if err != nil {
		return position{}, status.Error(codes.InvalidArgument, "continuation_tokens: a token is malformed: return tokens unchanged")
	}
	stated, err := partitionOf(token.GetPartition())
	if err != nil {
		return position{}, err
	}
	if stated != p.partition() {
		return position{}, status.Error(codes.InvalidArgument, "continuation_tokens: a token was issued for another partition: return it with its own")
	}
	return p, nil
}
