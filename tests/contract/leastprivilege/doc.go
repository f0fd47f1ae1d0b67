// Package leastprivilege runs Drover as the chart installs it, with the arguments of its Deployment and the rights of its
// service account, and compares what it asks of the API server with what the chart's roles permit: nothing is refused, and
// nothing is permitted that is not used, by its own story or by those told in memory under the same roles, but for the exceptions listed here.
package leastprivilege
