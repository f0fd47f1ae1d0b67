// Package leastprivilege runs Drover as the chart installs it, with the arguments of its Deployment and the rights of its
// service account, and compares the rules of the chart's roles with what it asks of the API server: nothing is refused, and
// nothing is permitted that is not used, by its own story or by those told in memory under the same roles, but for the exceptions listed here.
// An exception that the stories use all the same fails, unless it is one of those that they use at times.
//
// That nothing is refused is expected of most other stories on a real API server too: they run Drover by the same account (stage.AccountConfig), and fail for
// everything that it is refused. Those in which Drover is an administrator are the ones in which it installs its webhooks itself, which the chart does in its
// place (packages admission and tenancy, stage.Settings.Admission), and the ones in which it runs inside a host, whose rights are the host's (package outside).
//
// The rules are generated from the same record, into charts/drover/files/rights.yaml:
//
//	make build && go -C tests test -count=1 ./contract/leastprivilege -update
//
// lets Drover do everything and writes down what it needs. A run without -update then has to pass.
package leastprivilege
