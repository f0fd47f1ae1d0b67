import { isMap, parseAllDocuments } from 'yaml';

/** The Cluster that a manifest is about. Broken YAML can still name it. */
export function targetOf(text: string): { namespace: string; name: string } | undefined {
  const documents = parseAllDocuments(text);
  if (!Array.isArray(documents)) return undefined;
  for (const document of documents) {
    if (!isMap(document.contents) || document.get('kind') !== 'Cluster') continue;
    const name = document.getIn(['metadata', 'name']);
    const namespace = document.getIn(['metadata', 'namespace']);
    if (typeof name === 'string' && name)
      return { name, namespace: typeof namespace === 'string' ? namespace : 'default' };
  }
  return undefined;
}
