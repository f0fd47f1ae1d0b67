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
	{regexp.MustCompile(`failed calling webhook "([^"]+)"`),
		"make the webhook $1 answer: its Service needs ready pods"},
	{regexp.MustCompile(`exceeded quota: ([^\s,]+)`),
		"raise the ResourceQuota $1 of the namespace, or delete objects that it counts"},
	{regexp.MustCompile(
		`(?i)x509: certificate (?:has expired or )?is not yet valid|certificate has expired or is not yet valid`),
		"compare the clocks of the host and the server: a certificate is not yet valid, or has expired"},
	{regexp.MustCompile(`x509: certificate signed by unknown authority`),
		"make the host trust the authority of the certificate, which can be the server's, a proxy's or a registry's"},
	{regexp.MustCompile(`(?i)no such host|temporary failure in name resolution|could not resolve host`),
		"correct the name resolution of the host, or the address"},
	{regexp.MustCompile(`(?i)no space left on device`), "free space on the disk of the host"},
	{regexp.MustCompile(`(?i)toomanyrequests|pull rate limit`),
		"use a private registry or a mirror: the public registry limits pulls"},
	{regexp.MustCompile(`ErrImagePull|ImagePullBackOff|InvalidImageName`),
		"make the image available to the nodes of the management cluster, or set another one with " +
			"--machine-provision-image; drover images lists the images"},
	{regexp.MustCompile(`(?i)no route to host|connection refused|i/o timeout|context deadline exceeded`),
		"check the network between both ends, with its firewalls and proxies"},
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
