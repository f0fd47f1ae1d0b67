package machinejob

import (
	"regexp"
	"strings"
)

// remedies map words in the output of a driver to a sentence with the cause and what the user can do. The words are
// those of the clouds of the built-in drivers. The first match counts.
var remedies = []struct {
	words *regexp.Regexp
	do    string
}{
	{regexp.MustCompile(`\b(RequestLimitExceeded|TooManyRequests)\b`),
		"The account sends too many requests to the cloud ($1). Drover tries again. If this repeats, create fewer " +
			"machines at once"},
	{regexp.MustCompile(`\b(InsufficientInstanceCapacity|SkuNotAvailable|ZonalAllocationFailed|` +
		`ZONE_RESOURCE_POOL_EXHAUSTED)\b`),
		"The cloud has no capacity left ($1): use another zone or machine type, or wait"},
	{regexp.MustCompile(`\b([A-Z][A-Za-z]+LimitExceeded|Max[A-Za-z]+CountExceeded|QuotaExceeded|QUOTA_EXCEEDED)\b`),
		"A quota of the cloud account is used up ($1): request a higher quota from the cloud, delete machines, or " +
			"use a smaller machine type"},
	{regexp.MustCompile(`(?i)\bquota\b[^\n]*\bexceed|\bexceed[^\n]*\b(quota|droplet limit)\b`),
		"A quota of the cloud account is used up: request a higher quota from the cloud, delete machines, or use a " +
			"smaller machine type"},
}

// explained returns the output of a driver, followed by the cause and a remedy if the output has a known cause. The
// remedy is at the end because users see the end of a long text.
func explained(output, shown string) string {
	for _, r := range remedies {
		found := r.words.FindStringSubmatchIndex(output)
		if found == nil {
			continue
		}
		end := ". "
		if strings.HasSuffix(shown, ".") {
			end = " "
		}
		return shown + end + string(r.words.ExpandString(nil, r.do, output, found))
	}
	return shown
}
