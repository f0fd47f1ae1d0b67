package v3

// Every name below is stored in objects, and read by programs other than Drover: none may ever change.

// Types of conditions.
const (
	// ClusterConditionConnected is true while the cluster is reachable.
	ClusterConditionConnected = "Connected"
	// ClusterConditionReady is true while the cluster works.
	ClusterConditionReady = "Ready"
	// ClusterConditionAgentDeployed is true once the agent inside the cluster was deployed.
	ClusterConditionAgentDeployed = "AgentDeployed"
	// ClusterConditionPreBootstrapped is true once Secrets that the agent needs were copied.
	ClusterConditionPreBootstrapped = "PreBootstrapped"
	// ClusterConditionUpdated, ClusterConditionProvisioned and ClusterConditionRemoved follow the provisioning cluster.
	ClusterConditionUpdated     = "Updated"
	ClusterConditionProvisioned = "Provisioned"
	ClusterConditionRemoved     = "Removed"

	// NodeDriverConditionDownloaded is true after the download, if the checksum of the driver is correct.
	NodeDriverConditionDownloaded = "Downloaded"
	// NodeDriverConditionVerifiable is false for a driver that Drover installed without https or without a strong
	// checksum, and now refuses to install again. Other drivers do not have it.
	NodeDriverConditionVerifiable = "Verifiable"
	// NodeDriverConditionInstalled is true after the driver ran successfully.
	NodeDriverConditionInstalled = "Installed"
	// NodeDriverConditionActive is true while machines can be created with the driver.
	NodeDriverConditionActive = "Active"
	// NodeDriverConditionInactive is true while the driver is inactive.
	NodeDriverConditionInactive = "Inactive"

	// FleetWorkspaceConditionReady is true once the namespace of the workspace exists. It is false while Clusters hold
	// a deletion.
	FleetWorkspaceConditionReady = "Ready"

	// ManagedChartConditionDefined is true once the Bundle of a ManagedChart matches its spec.
	ManagedChartConditionDefined = "Defined"
)

// ChartAnnotation on the Bundle of a ManagedChart has the origin of its files, as JSON.
const ChartAnnotation = "drover.io/chart"

// Annotations on NodeDriver. Lists are separated by commas.
const (
	// PublicCredentialFieldsAnnotation lists flags that become visible fields of a credential.
	PublicCredentialFieldsAnnotation = "publicCredentialFields"
	// PrivateCredentialFieldsAnnotation lists flags that become hidden fields of a credential.
	PrivateCredentialFieldsAnnotation = "privateCredentialFields"
	// PasswordFieldsAnnotation lists other flags whose values are hidden.
	PasswordFieldsAnnotation = "passwordFields"
	// OptionalCredentialFieldsAnnotation lists fields of a credential that may be absent.
	OptionalCredentialFieldsAnnotation = "optionalCredentialFields"
	// DefaultsAnnotation is a list of `key:value` that overrides defaults of flags.
	DefaultsAnnotation = "defaults"
	// FileToFieldAliasesAnnotation is a list of `schemaField:driverField`: the field contains the content of a file
	// whose path the driver expects.
	FileToFieldAliasesAnnotation = "nodedriver.cattle.io/file-to-field-aliases"
	// UIFieldHintsAnnotation is JSON for user interfaces.
	UIFieldHintsAnnotation = "io.cattle.nodedriver/ui-field-hints"
)

const (
	// ManagementClusterFinalizer removes the provisioning cluster with its management cluster.
	ManagementClusterFinalizer = "wrangler.cattle.io/mgmt-cluster-remove"
	// FleetWorkspaceFinalizer keeps a FleetWorkspace until its namespace holds no clusters and is deleted. Only a
	// FleetWorkspace whose namespace Drover created has it.
	FleetWorkspaceFinalizer = "drover.io/fleet-workspace"
	// DefaultRegistrationTokenName is the ClusterRegistrationToken that every cluster has.
	DefaultRegistrationTokenName = "default-token"
	// SystemRegistrationTokenName is the agent's ClusterRegistrationToken, if the cluster's default token is for hosts.
	SystemRegistrationTokenName = "system"
	// TokenPurposeLabel on a ClusterRegistrationToken, and on the Secret with its token, is the purpose of the token:
	// TokenPurposeAgent or TokenPurposeNode. A token without the label admits both. A token with another value admits
	// neither.
	TokenPurposeLabel = "drover.io/token-purpose"
	// TokenPurposeAgent is a token for the agent inside the cluster.
	TokenPurposeAgent = "agent"
	// TokenPurposeNode is a token for hosts that become nodes.
	TokenPurposeNode = "node"
	// RegistrationTokenSecretPrefix is the prefix of the name of the Secret with the token of a
	// ClusterRegistrationToken.
	RegistrationTokenSecretPrefix = "crt-token-"
	// CAPIClusterOwnerLabel is the Cluster API cluster from which a management cluster was imported.
	CAPIClusterOwnerLabel = "cluster-api.cattle.io/capi-cluster-owner"
	// CAPIClusterOwnerNamespaceLabel is the namespace of that cluster.
	CAPIClusterOwnerNamespaceLabel = "cluster-api.cattle.io/capi-cluster-owner-ns"
	// ClusterNameLabel is the name of the management cluster, on objects for Fleet.
	ClusterNameLabel = "management.cattle.io/cluster-name"
	// ClusterDisplayNameLabel is the name that users gave the cluster.
	ClusterDisplayNameLabel = "management.cattle.io/cluster-display-name"
	// IndexClusterRegistrationToken finds ClusterRegistrationTokens by spec.clusterName.
	IndexClusterRegistrationToken = "clusterRegToken"
)
