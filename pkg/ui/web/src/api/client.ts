import type { Problem, Session } from './types';

const base = '/ui/api/v1/';

/** An answer of the server that is no success, or a request that got no answer (status 0). */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly reason: string,
    message: string,
    readonly retryAfter?: number,
    /** Why the server refused a manifest or a form. */
    readonly problems?: Problem[],
  ) {
    super(message);
  }
}

let csrf = '';
let onSignedOut = () => {};

/** Sets the token that the server requires in requests that change something. */
export function setCSRF(session: Session | undefined) {
  csrf = session?.csrf ?? '';
}

/** Sets what happens when the server no longer accepts the session. */
export function whenSignedOut(handler: () => void) {
  onSignedOut = handler;
}

export function reportSignedOut() {
  onSignedOut();
}

/** The path of a cluster's or a machine's answers. */
export function objectPath(kind: 'clusters' | 'machines', namespace: string, name: string, what: string) {
  return `namespaces/${encodeURIComponent(namespace)}/${kind}/${encodeURIComponent(name)}/${what}`;
}

/** Sends a request and returns its successful answer. Everything else throws an ApiError. */
export async function request(path: string, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  if (init.method && init.method !== 'GET' && csrf) headers.set('X-Drover-CSRF', csrf);
  let response: Response;
  try {
    response = await fetch(base + path, { ...init, headers, credentials: 'same-origin' });
  } catch (error) {
    if (init.signal?.aborted) throw error;
    throw new ApiError(0, 'Unreachable', 'The server does not answer.');
  }
  if (response.ok) return response;
  const error = await errorOf(response);
  if (error.status === 401 && path !== 'session') reportSignedOut();
  throw error;
}

async function errorOf(response: Response): Promise<ApiError> {
  const retryAfter = Number(response.headers.get('Retry-After')) || undefined;
  try {
    const body = (await response.json()) as { error: string; reason: string; problems?: Problem[] };
    return new ApiError(response.status, body.reason, body.error, retryAfter, body.problems ?? undefined);
  } catch {
    return new ApiError(response.status, 'Internal', `The server answers with status ${response.status}.`, retryAfter);
  }
}

export async function getJSON<T>(path: string, signal?: AbortSignal): Promise<T> {
  return (await request(path, { signal })).json() as Promise<T>;
}

export async function getText(path: string, signal?: AbortSignal): Promise<string> {
  return (await request(path, { signal })).text();
}

export async function postJSON<T>(path: string, body: unknown): Promise<T> {
  const init = { method: 'POST', body: JSON.stringify(body), headers: { 'Content-Type': 'application/json' } };
  return (await request(path, init)).json() as Promise<T>;
}

/** Repeats a request that the server refused because it came too early, as often as a user would wait. */
export async function patiently<T>(ask: () => Promise<T>, attempts = 10): Promise<T> {
  try {
    return await ask();
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 429 || attempts <= 1) throw error;
    await new Promise((resolve) => setTimeout(resolve, (error.retryAfter ?? 1) * 1000));
    return patiently(ask, attempts - 1);
  }
}

/** Saves an answer as a file. A link would save the text of an error as well. */
export async function download(path: string, file: string) {
  save(await (await request(path)).blob(), file);
}

/** Saves a text of the page as a file. */
export function saveText(text: string, file: string) {
  save(new Blob([text], { type: 'text/plain' }), file);
}

function save(content: Blob, file: string) {
  const url = URL.createObjectURL(content);
  const link = document.createElement('a');
  link.href = url;
  link.download = file;
  link.click();
  // The browser reads the blob after this function returns.
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

/** What to show a user for any thrown value. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
