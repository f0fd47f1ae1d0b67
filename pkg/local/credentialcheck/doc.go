// Package credentialcheck asks a cloud whether it accepts a credential. It runs in the Job of package credentialjob,
// and not in the server. It sends one request that changes nothing, as the node driver would: DescribeRegions to EC2, or
// a login to vSphere, which it ends again.
//
// An answer is read up to a limit, and only known words of it reach the result.
package credentialcheck
