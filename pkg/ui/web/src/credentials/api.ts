import { queryClient } from '../api/queries';
import { askJSON, randomName } from '../change/api';

export interface CredentialName {
  namespace: string;
  name: string;
}

async function send(path: string, method: 'POST' | 'PUT', body: unknown): Promise<CredentialName> {
  // A browser may repeat a request whose connection ends. The server refuses a repetition.
  const headers = { 'Content-Type': 'application/json', 'Idempotency-Key': randomName() };
  const answer = await askJSON<CredentialName>(path, { method, body: JSON.stringify(body), headers });
  void queryClient.invalidateQueries({ queryKey: ['administration'] });
  return answer;
}

const pathOf = (namespace: string) => `namespaces/${encodeURIComponent(namespace)}/credentials`;

export const createCredential = (
  namespace: string,
  credential: { name?: string; displayName: string; driver: string; values: Record<string, string> },
) => send(pathOf(namespace), 'POST', credential);

/** Replaces all values of a credential. */
export const replaceCredential = ({ namespace, name }: CredentialName, values: Record<string, string>) =>
  send(`${pathOf(namespace)}/${encodeURIComponent(name)}`, 'PUT', { values });
