package diagnose

import (
	"regexp"
	"strings"
)

// advice maps words in a message of any source to a remedy.
var advice = []struct {
	words *regexp.Regexp
	do    string
}{
	{regexp.MustCompile(`failed calling webhook "([^"]+)"`), "make the webhook $1 answer: its Service needs ready pods"},
	{regexp.MustCompile(`exceeded quota: ([^\s,]+)`), "raise the ResourceQuota $1 of the namespace, or free what it counts"},
	{regexp.MustCompile(`(?i)x509: certificate (?:has expired or )?is not yet valid|certificate has expired or is not yet valid`),
		"compare the clock of the host with that of the server: a certificate is too new or too old for it"},
	{regexp.MustCompile(`x509: certificate signed by unknown authority`), "make the host trust the authority that signed the certificate: it is that of the server, a proxy or a registry"},
	{regexp.MustCompile(`(?i)no such host|temporary failure in name resolution|could not resolve host`), "correct the name resolution of the host, or the address"},
	{regexp.MustCompile(`(?i)no space left on device`), "make room on the disk of the host"},
	{regexp.MustCompile(`(?i)toomanyrequests|pull rate limit`), "use a private registry or a mirror: the public one limits pulls"},
	{regexp.MustCompile(`ErrImagePull|ImagePullBackOff|InvalidImageName`),
		"make the image available to the nodes of the management cluster, or name another with --machine-provision-image; drover images lists what is needed"},
	{regexp.MustCompile(`(?i)no route to host|connection refused|i/o timeout|context deadline exceeded`), "check the network between the two, firewalls and proxies"},
}

// hints returns the remedies that match a message.
func hints(message string) []string {
	var out []string
	for _, a := range advice {
		if found := a.words.FindStringSubmatchIndex(message); found != nil {
			out = append(out, strings.TrimSpace(string(a.words.ExpandString(nil, a.do, message, found))))
		}
	}
	return out
}
