// Package autoscaler scales a pool as the unmodified cluster-autoscaler does, with the token of the cluster's own
// account. testdata/calls.json has the API calls and says where they come from. To record them again, give the test a
// built cluster-autoscaler:
//
//	DROVER_TEST_AUTOSCALER=/path/to/cluster-autoscaler DROVER_TEST_AUTOSCALER_VERSION=1.36.1 \
//		go -C tests test -count=1 -run '^TestRecordAutoscaler$' ./contract/autoscaler
package autoscaler
