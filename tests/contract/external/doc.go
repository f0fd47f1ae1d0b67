// Package external runs the story of tests/contract/simulated with Cluster API's stock core manager next to Drover, on
// its own management plane. The story with twenty clusters runs only with DROVER_TEST_ALL. It measures the load of the
// two cores, and the first two clusters cover everything else.
package external
