// Package leastprivilege runs Drover as the chart installs it, with the arguments of its Deployment and the rights of its
// service account, and compares the rules of the chart's roles with what it asks of the API server: nothing is refused, and
// nothing is permitted that is not used, by its own story or by those told in memory under the same roles, but for the exceptions listed here.
// That nothing is refused is expected of all other stories on a real API server too: they run Drover by the same account (stage.AccountConfig).
//
// The rules are generated from the same record, into charts/drover/files/rights.yaml:
//
//	make build && go -C tests test -count=1 ./contract/leastprivilege -update
//
// lets Drover do everything and writes down what it needs. A run without -update then has to pass.
package leastprivilege
