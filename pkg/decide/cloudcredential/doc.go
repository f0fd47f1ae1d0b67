// Package cloudcredential reads cloud credentials, and compares their keys with the schema of their driver. A
// credential is a Secret with keys such as amazonec2credentialConfig-accessKey
// (docs/wire/secrets.md#cloud-credentials).
package cloudcredential
