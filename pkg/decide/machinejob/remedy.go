package machinejob

import (
	"regexp"
	"strings"
)

// remedy is a sentence for an output with some words.
type remedy struct {
	words *regexp.Regexp
	do    string
}

// refused is the remedy if the cloud does not accept the credential. It is worded so that redaction leaves it.
var refused = remedy{regexp.MustCompile(`\b(ExpiredToken|ExpiredTokenException|InvalidClientTokenId|` +
	`UnrecognizedClientException|SignatureDoesNotMatch|ExpiredAuthenticationToken|AADSTS7000215|AADSTS7000222|` +
	`AWS was not able to validate the provided access credentials|invalid_grant|Unable to authenticate you|` +
	`incorrect user name or password|The request you have made requires authentication)\b`),
	"The cloud does not accept the access data. Write valid values into the Secret with the credential. The next " +
		"attempt uses them"}

// remedies map words in the output of a driver to a sentence with the cause and what the user can do. The words are
// those of the clouds of the built-in drivers. The first match counts.
var remedies = []remedy{
	{regexp.MustCompile(`\b(RequestLimitExceeded|TooManyRequests)\b`),
		"The account sends too many requests to the cloud ($1). Drover tries again. If this repeats, create fewer " +
			"machines at once"},
	{regexp.MustCompile(`\b(InsufficientInstanceCapacity|SkuNotAvailable|ZonalAllocationFailed|` +
		`ZONE_RESOURCE_POOL_EXHAUSTED)\b`),
		"The cloud has no capacity left ($1): use another zone or machine type, or wait"},
	{regexp.MustCompile(`\b([A-Z][A-Za-z]+LimitExceeded|Max[A-Za-z]+CountExceeded|QuotaExceeded|QUOTA_EXCEEDED)\b`),
		"A quota of the cloud account is used up ($1): request a higher quota from the cloud, delete machines, or " +
			"use a smaller machine type"},
	refused,
	{regexp.MustCompile(`(?i)\bquota\b[^\n]*\bexceed|\bexceed[^\n]*\b(quota|droplet limit)\b`),
		"A quota of the cloud account is used up: request a higher quota from the cloud, delete machines, or use a " +
			"smaller machine type"},
}

// explained returns the output of a driver, followed by the cause and a remedy if the output has a known cause. The
// remedy is at the end because users see the end of a long text.
func explained(output, shown string) string {
	for _, r := range remedies {
		if text := r.after(output, shown); text != shown {
			return text
		}
	}
	return shown
}

// after adds the remedy to the shown output if it fits.
func (r remedy) after(output, shown string) string {
	found := r.words.FindStringSubmatchIndex(output)
	if found == nil {
		return shown
	}
	end := ". "
	if strings.HasSuffix(shown, ".") {
		end = " "
	}
	return shown + end + string(r.words.ExpandString(nil, r.do, output, found))
}
