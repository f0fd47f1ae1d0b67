// Package external tells the story of tests/contract/simulated with the stock core manager of Cluster API beside Drover, on a
// management plane of its own. Its twenty clusters are told with DROVER_TEST_ALL only: they say how much the two cores bear, and
// nothing that the first two do not say.
package external
