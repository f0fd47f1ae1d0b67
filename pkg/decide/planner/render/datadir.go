package render

// FieldDataDir is the field for the distribution's data directory.
const FieldDataDir = "spec.rkeConfig.dataDirectories.k8sDistro"

// DataDirField is the field that sets the data directory of a machine's distribution: FieldDataDir, or a configuration
// key that is passed through. Empty when none sets it.
func DataDirField(in Input) string {
	m := newMachinePlan(in)
	if m.spec.DataDirectories.K8sDistro != "" {
		return FieldDataDir
	}
	if m.layerUser() != nil {
		return ""
	}
	return m.origin[keyDataDir]
}
