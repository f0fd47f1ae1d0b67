package credentialcheck

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/drover-io/drover/pkg/decide/credentialjob"
)

const (
	// defaultRegion is the driver's.
	defaultRegion = "us-east-1"
	form          = "application/x-www-form-urlencoded; charset=utf-8"
	algorithm     = "AWS4-HMAC-SHA256"
	// body asks for the regions. Every account may have this permission, and the answer is small.
	body = "Action=DescribeRegions&Version=2016-11-15"
)

var (
	// region matches names of Amazon's regions, which become a part of a host name. otherRegion matches the regions of
	// clouds with an endpoint of their own.
	region      = regexp.MustCompile(`^[a-z]{2}(-[a-z]+)+-[0-9]+$`)
	otherRegion = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]*$`)
	// errorCode matches the codes of EC2.
	errorCode = regexp.MustCompile(`^[A-Za-z]+(\.[A-Za-z]+)*$`)
)

// Codes of EC2, and what they say about a credential.
var (
	expired  = []string{"ExpiredToken", "ExpiredTokenException"}
	rejected = []string{"AuthFailure", "InvalidClientTokenId", "SignatureDoesNotMatch", "UnrecognizedClientException",
		"InvalidAccessKeyId", "InvalidSecurity", "MissingAuthenticationToken", "NotSignedUp", "OptInRequired",
		"PendingVerification", "Blocked"}
	permitted = []string{"UnauthorizedOperation", "AccessDenied", "AccessDeniedException"}
)

type amazon struct {
	client *http.Client
	fields map[string]string
	now    func() time.Time
}

func (a *amazon) check(ctx context.Context) (credentialjob.Result, error) {
	request, err := a.request(ctx)
	if err != nil {
		return credentialjob.Result{}, err
	}
	got, err := send(a.client, request)
	if err != nil {
		return credentialjob.Result{}, err
	}
	if got.code == http.StatusOK && hasRegions(got.body) {
		return credentialjob.Result{Reason: credentialjob.ReasonAccepted, Message: "EC2 accepts the access key"}, nil
	}
	return understood(request.URL.Host, got.status, got.body)
}

// hasRegions reports whether EC2 answers. Any web server may answer with the status of a success.
func hasRegions(answer []byte) bool {
	var found struct{ XMLName xml.Name }
	return xml.Unmarshal(answer, &found) == nil && found.XMLName.Local == "DescribeRegionsResponse"
}

// understood reads an error of EC2.
func understood(host, status string, answer []byte) (credentialjob.Result, error) {
	var found struct {
		Errors struct {
			Error []struct{ Code string }
		}
	}
	code := ""
	if err := xml.Unmarshal(answer, &found); err == nil && len(found.Errors.Error) > 0 {
		code = found.Errors.Error[0].Code
	}
	if len(code) > 64 || !errorCode.MatchString(code) {
		code = ""
	}
	said := fmt.Sprintf("EC2 at %s answers %s", host, code)
	switch {
	case slices.Contains(expired, code):
		return credentialjob.Result{Reason: credentialjob.ReasonExpired, Message: "the credential has expired (" +
			said + "); write new keys into the Secret"}, nil
	case slices.Contains(rejected, code):
		return credentialjob.Result{Reason: credentialjob.ReasonRejected, Message: "EC2 does not accept the " +
			"credential (" + said + "); write both keys of an active user into the Secret"}, nil
	case slices.Contains(permitted, code):
		return credentialjob.Result{Reason: credentialjob.ReasonAccepted,
			Message: "EC2 accepts the access key, which may not list regions"}, nil
	case code == "RequestExpired":
		return credentialjob.Result{}, fmt.Errorf("%s: the clock of the node differs from that of EC2", said)
	case code == "":
		return credentialjob.Result{}, errNoAnswer{fmt.Errorf("%s answers %s, and not as EC2 does", host, status)}
	}
	return credentialjob.Result{}, errNoAnswer{errors.New(said)}
}

// request returns the signed request.
func (a *amazon) request(ctx context.Context) (*http.Request, error) {
	where := a.fields[credentialjob.FieldRegion]
	if where == "" {
		where = defaultRegion
	}
	if !region.MatchString(where) && (a.fields[credentialjob.FieldEndpoint] == "" || !otherRegion.MatchString(where)) {
		return nil, errors.New("field region of the machine config: must be a region such as eu-central-1")
	}
	endpoint, err := a.endpoint(where)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint, strings.NewReader(body))
	if err != nil {
		return nil, errors.New("field endpoint of the machine config: must be a host or a URL")
	}
	request.Header.Set("Content-Type", form)
	request.Header.Set("X-Amz-Date", a.now().UTC().Format("20060102T150405Z"))
	if token := a.fields[credentialjob.FieldSessionToken]; token != "" {
		request.Header.Set("X-Amz-Security-Token", token)
	}
	sign(request, where, a.fields[credentialjob.FieldAccessKey], a.fields[credentialjob.FieldSecretKey])
	return request, nil
}

// endpoint returns the URL of EC2. The driver accepts a host or a URL.
func (a *amazon) endpoint(region string) (string, error) {
	host := a.fields[credentialjob.FieldEndpoint]
	if host == "" {
		host = "ec2." + region + ".amazonaws.com"
		if strings.HasPrefix(region, "cn-") {
			host += ".cn"
		}
	}
	if !strings.Contains(host, "://") {
		scheme := "https://"
		if a.fields[credentialjob.FieldInsecureTransport] == "true" {
			scheme = "http://"
		}
		host = scheme + host
	}
	parsed, err := url.Parse(host)
	if err != nil || parsed.Host == "" || parsed.Scheme != "https" && parsed.Scheme != "http" || parsed.User != nil {
		return "", errors.New("field endpoint of the machine config: must be a host or a URL")
	}
	return parsed.Scheme + "://" + parsed.Host + "/", nil
}

// sign adds a signature of version 4. The body is fixed.
func sign(request *http.Request, region, accessKey, secretKey string) {
	stamp := request.Header.Get("X-Amz-Date")
	signed := []string{"content-type", "host", "x-amz-date"}
	if request.Header.Get("X-Amz-Security-Token") != "" {
		signed = append(signed, "x-amz-security-token")
	}
	var canonical strings.Builder
	canonical.WriteString("POST\n/\n\n")
	for _, name := range signed {
		value := request.Header.Get(name)
		if name == "host" {
			value = request.URL.Host
		}
		canonical.WriteString(name + ":" + value + "\n")
	}
	names := strings.Join(signed, ";")
	canonical.WriteString("\n" + names + "\n" + digest(body))
	scope := strings.Join([]string{stamp[:8], region, "ec2", "aws4_request"}, "/")
	key := []byte("AWS4" + secretKey)
	for part := range strings.SplitSeq(scope, "/") {
		key = mac(key, part)
	}
	text := strings.Join([]string{algorithm, stamp, scope, digest(canonical.String())}, "\n")
	signature := hex.EncodeToString(mac(key, text))
	request.Header.Set("Authorization", fmt.Sprintf("%s Credential=%s/%s, SignedHeaders=%s, Signature=%s", algorithm,
		accessKey, scope, names, signature))
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	_, _ = h.Write([]byte(text)) // a hash cannot fail to write
	return h.Sum(nil)
}
