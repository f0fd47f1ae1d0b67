package connect

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/drover-io/drover/pkg/decide/nodeplan"
)

const (
	// maxBody limits an agent's request body, in bytes. A Secret has at most 1 MiB of data, which is 1.4 MiB in base64.
	maxBody = 2 << 20
	// maxSentValues limits the values in an agent's request body. A value of two bytes, such as an empty owner
	// reference, takes a hundred bytes in memory.
	maxSentValues = 16384
	// maxComposing is how many updates are decoded at the same time.
	maxComposing = 8
	// bodyTime is how long the body of an update may take to arrive.
	bodyTime = 30 * time.Second
)

// errBody means that the body is not what an agent sends.
var errBody = errors.New("the body must be a Secret as JSON or protobuf, with its resourceVersion")

// readBody reads the body of an update, within a time and a size. The error is an *http.MaxBytesError beyond the size,
// and errBody beyond the time.
func readBody(w http.ResponseWriter, r *http.Request, within time.Duration) ([]byte, error) {
	connection := http.NewResponseController(w)
	// Writers without deadlines exist in tests only.
	_ = connection.SetReadDeadline(time.Now().Add(within))
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err == nil { // otherwise the server would wait for the rest of the body before it answers
		_ = connection.SetReadDeadline(time.Time{})
	}
	if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
		return raw, tooLarge
	}
	if err != nil {
		return raw, errBody // it has not arrived in time
	}
	return raw, nil
}

// decodeSent decodes the Secret in a request. The encoding depends on the client's version. It uses the decoder of
// exactly that encoding, because the universal one also accepts YAML.
func decodeSent(contentType string, raw []byte) (*corev1.Secret, error) {
	media, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		return nil, errBody
	}
	switch media {
	case runtime.ContentTypeJSON:
		if nodeplan.CountValues(raw) > maxSentValues {
			return nil, errBody
		}
	case runtime.ContentTypeProtobuf:
		if !fewFields(raw) {
			return nil, errBody
		}
	default:
		return nil, errBody
	}
	info, ok := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), media)
	if !ok {
		return nil, errBody
	}
	kind := corev1.SchemeGroupVersion.WithKind("Secret")
	obj, _, err := info.Serializer.Decode(raw, &kind, nil)
	sent, ok := obj.(*corev1.Secret)
	if err != nil || !ok {
		return nil, errBody
	}
	return sent, nil
}

// Numbers of nested messages in the protobuf form of an object: the object in its envelope, and its metadata.
const (
	envelopeRaw    = 2
	secretMetadata = 1
)

// fewFields reports whether a protobuf body has at most maxSentValues fields on the levels that have lists: the
// envelope, the Secret and its metadata.
func fewFields(raw []byte) bool {
	raw, ok := bytes.CutPrefix(raw, []byte("k8s\x00"))
	left := maxSentValues
	return ok && countFields(raw, &left, envelopeRaw, secretMetadata)
}

// countFields counts the fields of a message, and of the nested messages with the given numbers.
func countFields(message []byte, left *int, nested ...protowire.Number) bool {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if *left--; n < 0 || *left < 0 {
			return false
		}
		message = message[n:]
		size := protowire.ConsumeFieldValue(number, kind, message)
		if size < 0 {
			return false
		}
		if len(nested) > 0 && number == nested[0] && kind == protowire.BytesType {
			inner, _ := protowire.ConsumeBytes(message)
			if !countFields(inner, left, nested[1:]...) {
				return false
			}
		}
		message = message[size:]
	}
	return true
}
