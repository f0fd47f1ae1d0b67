package snapshots

import (
	"encoding/base64"
	"encoding/json"
	"regexp"
	"strings"
	"time"
	"unicode"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// ListPath is where a cluster lists its snapshots (docs/wire/planner.md#etcdsnapshot-objects). Clusters of older
// releases have no list.
const ListPath = "/apis/k3s.cattle.io/v1/etcdsnapshotfiles"

const (
	// maxName is the longest name of a file in Linux, in bytes. maxObjectName is the limit for objects and nodes, and
	// maxBucket for a bucket.
	maxName       = 255
	maxObjectName = 253
	maxBucket     = 63
	// maxMessage and maxLocation limit texts from a cluster, and maxAuthority limits the authority of a storage, in
	// bytes.
	maxMessage   = 1024
	maxLocation  = 2048
	maxAuthority = 32 << 10
)

// quantity matches the sizes that are parsed. Parsing some other ones takes hours.
var quantity = regexp.MustCompile(`^[0-9]{1,19}(\.[0-9]{1,3})?([kMGTPE]|[KMGTPE]i|m)?$`)

// File is a snapshot in its cluster's list.
type File struct {
	// Name is the name of the object in the list.
	Name string
	// SnapshotName is the name of the file. NodeName is the node that stores it or uploaded it to S3. Location is its
	// URI.
	SnapshotName, NodeName, Location string
	// Metadata are the metadata that were stored with the snapshot, in the form of the objects
	// (docs/wire/planner.md#etcdsnapshot-objects): base64 of JSON. It is empty when there are none or they are too
	// large.
	Metadata string
	// S3 is the storage of the file, nil when the node stores it. It has no credential.
	S3 *rkev1.ETCDSnapshotS3
	// Size is in bytes. CreatedAt is in whole seconds, and nil when unknown.
	Size      int64
	CreatedAt *metav1.Time
	// Successful is true for a complete snapshot. Otherwise Message says why it is not.
	Successful bool
	Message    string
}

// listed is the used part of an entry in the list.
type listed struct {
	Metadata struct {
		Name              string
		DeletionTimestamp *string
	} `json:"metadata"`
	Spec struct {
		SnapshotName string          `json:"snapshotName"`
		NodeName     string          `json:"nodeName"`
		Location     string          `json:"location"`
		Metadata     json.RawMessage `json:"metadata"`
		S3           *storage        `json:"s3"`
	} `json:"spec"`
	Status struct {
		Size         json.RawMessage `json:"size"`
		CreationTime string          `json:"creationTime"`
		ReadyToUse   *bool           `json:"readyToUse"`
		Error        *struct {
			Message string `json:"message"`
		} `json:"error"`
	} `json:"status"`
}

type storage struct {
	Endpoint      string `json:"endpoint"`
	EndpointCA    string `json:"endpointCA"`
	SkipSSLVerify bool   `json:"skipSSLVerify"`
	Bucket        string `json:"bucket"`
	Region        string `json:"region"`
	Prefix        string `json:"prefix"`
}

// file returns false for an invalid file name, because the name becomes part of paths. It also returns false for a file
// that no ETCDSnapshot can describe.
func (l *listed) file() (File, bool) {
	name, node := l.Metadata.Name, l.Spec.NodeName
	if l.Metadata.DeletionTimestamp != nil || !isFileName(l.Spec.SnapshotName) || name == "" ||
		clean(name, maxObjectName) != name || clean(node, maxObjectName) != node {
		return File{}, false
	}
	out := File{
		Name: name, SnapshotName: l.Spec.SnapshotName, NodeName: node, Location: clean(l.Spec.Location, maxLocation),
		Metadata: packed(l.Spec.Metadata), Size: sizeOf(l.Status.Size), CreatedAt: timeOf(l.Status.CreationTime),
		Successful: l.Status.Error == nil && l.Status.ReadyToUse != nil && *l.Status.ReadyToUse,
	}
	if l.Status.Error != nil {
		out.Message = clean(l.Status.Error.Message, maxMessage)
	}
	if s3 := l.Spec.S3; s3 != nil {
		if len(s3.EndpointCA) > maxAuthority || len(s3.Bucket) > maxBucket { // part of an authority verifies nothing
			return File{}, false
		}
		out.S3 = &rkev1.ETCDSnapshotS3{
			Endpoint: clean(s3.Endpoint, maxLocation), EndpointCA: s3.EndpointCA, SkipSSLVerify: s3.SkipSSLVerify,
			Bucket: clean(s3.Bucket, maxBucket), Region: clean(s3.Region, maxLocation),
			Folder: clean(s3.Prefix, maxLocation),
		}
	}
	return out, true
}

// packed returns metadata in a canonical form, with sorted keys. It returns all of them or none.
func packed(raw json.RawMessage) string {
	var metadata map[string]string
	if len(raw) > maxMetadata || json.Unmarshal(raw, &metadata) != nil || len(metadata) == 0 {
		return ""
	}
	encoded, err := json.Marshal(metadata)
	if err != nil || base64.StdEncoding.EncodedLen(len(encoded)) > maxMetadata {
		return ""
	}
	return base64.StdEncoding.EncodeToString(encoded)
}

// sizeOf returns 0 for an invalid size.
func sizeOf(raw json.RawMessage) int64 {
	text := strings.Trim(string(raw), `"`)
	if !quantity.MatchString(text) {
		return 0
	}
	size, err := resource.ParseQuantity(text)
	if err != nil {
		return 0
	}
	return max(0, size.Value())
}

// timeOf returns nil for a time that an object cannot store unchanged.
func timeOf(text string) *metav1.Time {
	at, err := time.Parse(time.RFC3339, text)
	at = at.UTC().Truncate(time.Second)
	if err != nil || at.Unix() <= 0 || at.Year() > 9999 {
		return nil
	}
	return &metav1.Time{Time: at}
}

func isFileName(name string) bool {
	return name != "" && name != "." && name != ".." && len(name) <= maxName && clean(name, maxName) == name &&
		!strings.ContainsAny(name, `/\`)
}

// clean keeps the printable characters, and at most limit bytes of them.
func clean(text string, limit int) string {
	if len(text) > 4*limit {
		text = text[:4*limit]
	}
	text = strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, text)
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "")
}
