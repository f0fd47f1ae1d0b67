// Package dynamicschema makes kinds from the schemas of node drivers. For the DynamicSchema "amazonec2config" it
// installs the CRDs of Amazonec2Config, Amazonec2Machine and Amazonec2MachineTemplate.
//
// The schema "nodetemplateconfig" lists the active drivers, and only their schemas get kinds. The CRDs of an absent or
// inactive driver are deleted after the last object of their kinds. Together with a CRD, the API server deletes all its
// objects. With the machines it would delete the record of what runs in the cloud.
//
// # Wake-ups
//
// Object: DynamicSchema. Woken by: DynamicSchema (the list of drivers), CustomResourceDefinition.
package dynamicschema
