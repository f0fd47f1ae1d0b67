package driverschema

import (
	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// The common parts of all drivers' machines. They describe rkev1.RKECommonNodeConfig and rkev1.RKEMachineStatus; a test
// compares them with the Go types.

// credentialNameLength is the longest "NAMESPACE:NAME".
const credentialNameLength = 317

func object(description string, properties map[string]apiextv1.JSONSchemaProps,
	required ...string) apiextv1.JSONSchemaProps {
	return apiextv1.JSONSchemaProps{Type: "object", Description: description, Properties: properties,
		Required: required}
}

func text(description string) apiextv1.JSONSchemaProps {
	return apiextv1.JSONSchemaProps{Type: "string", Description: description}
}

func listOf(description string, item apiextv1.JSONSchemaProps) apiextv1.JSONSchemaProps {
	return apiextv1.JSONSchemaProps{Type: "array", Description: description,
		Items: &apiextv1.JSONSchemaPropsOrArray{Schema: &item}}
}

// common is the part that a pool gives to its machines, whatever their driver.
func common() apiextv1.JSONSchemaProps {
	labels := object("Labels of the node.", nil)
	labels.Nullable = true
	labels.AdditionalProperties = &apiextv1.JSONSchemaPropsOrBool{Allows: true,
		Schema: &apiextv1.JSONSchemaProps{Type: "string"}}

	since := text("TimeAdded is when the taint was added.")
	since.Format = "date-time"
	taints := listOf("Taints of the node.", object("", map[string]apiextv1.JSONSchemaProps{
		"effect":    text("Effect on pods that do not tolerate the taint: NoSchedule, PreferNoSchedule or NoExecute."),
		"key":       text("Key of the taint."),
		"value":     text("Value of the taint."),
		"timeAdded": since,
	}, "effect", "key"))
	taints.Nullable = true

	credential := text(
		"CloudCredentialSecretName names the Secret with the credential of the cloud: cattle-global-data:NAME, or a " +
			"name " +
			"in the namespace of the cluster.")
	credential.Nullable = true
	credential.MaxLength = new(int64(credentialNameLength))

	return object("Common is what the pool gives to every machine.", map[string]apiextv1.JSONSchemaProps{
		"labels": labels, "taints": taints, "cloudCredentialSecretName": credential,
	})
}

func providerID() apiextv1.JSONSchemaProps {
	return text("ProviderID is the provider ID of the node, set once the node is known.")
}

// machineStatus is the status of a machine of any driver.
func machineStatus() apiextv1.JSONSchemaProps {
	condition := object("", map[string]apiextv1.JSONSchemaProps{
		"type":               text("Type of the condition."),
		"status":             text("Status is True, False or Unknown."),
		"lastUpdateTime":     text("LastUpdateTime is when the condition was last written."),
		"lastTransitionTime": text("LastTransitionTime is when the status last changed."),
		"reason":             text("Reason is one word for machines."),
		"message":            text("Message is a sentence for people."),
	}, "status", "type")
	address := object("", map[string]apiextv1.JSONSchemaProps{
		"type":    text("Type is Hostname, ExternalIP, InternalIP, ExternalDNS or InternalDNS."),
		"address": text("Address itself."),
	}, "address", "type")
	initialization := object("Initialization tells Cluster API that the machine exists.",
		map[string]apiextv1.JSONSchemaProps{
			"provisioned": {Type: "boolean",
				Description: "Provisioned is true when the machine exists and its node is known."},
		})
	return object("Status is what was observed.", map[string]apiextv1.JSONSchemaProps{
		"conditions": listOf("Conditions of the machine: Ready, CreateJob, DeleteJob.", condition),
		"jobName":    text("JobName is the Job that last created or deleted the machine."),
		"ready": {Type: "boolean",
			Description: "Ready is true when the machine exists and has joined."},
		"initialization": initialization,
		"driverHash":     text("DriverHash is the checksum of the driver that made the machine."),
		"driverUrl":      text("DriverURL is where the driver that made the machine came from."),
		"cloudCredentialSecretName": text(
			"CloudCredentialSecretName is the credential that the machine was made with."),
		"failureReason":  text("FailureReason is CreateError or DeleteError."),
		"failureMessage": text("FailureMessage says in words what failed."),
		"addresses":      listOf("Addresses of the machine.", address),
	})
}
