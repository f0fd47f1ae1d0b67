import { ApiError, objectPath, patiently, request } from '../api/client';
import type { PreviewReport, Problem } from '../api/types';

export type { PreviewReport, Problem } from '../api/types';

/** What the server says about an edited manifest. */
export interface PreviewAnswer {
  /** What the preview compared with. It is empty for a cluster that does not exist. */
  seen: string;
  report?: PreviewReport;
  /** Why the manifest cannot be written. */
  problems?: Problem[];
  notes?: string[];
}

/** The cluster that a change is about. */
export interface Target {
  namespace: string;
  name: string;
}

/** A manifest and the version of the cluster that it shows. */
export interface Manifest {
  text: string;
  seen: string;
}

/** The requests of a change. Tests replace them. */
export interface ChangeApi {
  preview: (text: string) => Promise<PreviewAnswer>;
  /** Writes exactly what the preview with this answer compared. It returns the objects that it wrote. */
  apply: (text: string, seen: string) => Promise<string[]>;
}

/** A silent server is no better than an absent one. Each request of the server to the API server takes 30 seconds. */
const longestWait = 90_000;

const yaml = { 'Content-Type': 'text/yaml' };

/** Sends a request for which a user waits. It fails when the server is silent for too long. */
export async function ask(path: string, init: RequestInit = {}): Promise<Response> {
  const limit = AbortSignal.timeout(longestWait);
  const signal = init.signal ? AbortSignal.any([init.signal, limit]) : limit;
  try {
    return await request(path, { ...init, signal });
  } catch (error) {
    if (limit.aborted && !init.signal?.aborted) throw new ApiError(0, 'Silent', 'The server does not answer.');
    throw error;
  }
}

/** Sends a request for which a user waits, and reads the answer. */
export async function askJSON<T>(path: string, init: RequestInit = {}): Promise<T> {
  const response = await ask(path, init);
  return read(() => response.json() as Promise<T>);
}

/** Reads the body of an answer. A connection that ends in the middle is no answer. */
async function read<T>(body: () => Promise<T>): Promise<T> {
  try {
    return await body();
  } catch {
    throw new ApiError(0, 'Unreachable', 'The answer of the server is incomplete.');
  }
}

const unquoted = (tag: string | null) => (tag ?? '').replace(/^W\//, '').replaceAll('"', '');

/** The manifest of a cluster as a user writes it. */
export async function loadManifest({ namespace, name }: Target, signal?: AbortSignal): Promise<Manifest> {
  const path = objectPath('clusters', namespace, name, 'manifest');
  const response = await patiently(() => ask(path, { signal, cache: 'no-store' }));
  return { text: await read(() => response.text()), seen: unquoted(response.headers.get('ETag')) };
}

/** How a page changes a cluster. */
export interface ChangeOptions {
  /** The page makes new clusters only. The server refuses its write if the cluster exists. */
  isNew?: boolean;
}

export function changeApi({ namespace, name }: Target, { isNew }: ChangeOptions = {}): ChangeApi {
  const path = `namespaces/${encodeURIComponent(namespace)}/clusters/${encodeURIComponent(name)}`;
  return {
    preview: async (text) => {
      const init = { method: 'POST', body: text, headers: yaml };
      const response = await patiently(() => ask(`${path}/preview`, init));
      return read(() => response.json() as Promise<PreviewAnswer>);
    },
    apply: async (text, seen) => {
      const condition: Record<string, string> =
        seen && !isNew ? { 'If-Match': `"${unquoted(seen)}"` } : { 'If-None-Match': '*' };
      // The server refuses a request that comes too early before it begins, so the next one is another attempt.
      const response = await patiently(() => {
        // A browser repeats a request if a used connection ends without an answer. The server knows it by this name.
        const attempt = { 'Idempotency-Key': randomName() };
        return ask(path, { method: 'PUT', body: text, headers: { ...yaml, ...condition, ...attempt } });
      });
      const answer = await read(() => response.json() as Promise<{ written: string[] | null }>);
      return answer.written ?? [];
    },
  };
}

/** A random name for an attempt. Pages without HTTPS have no other source of randomness. */
export const randomName = () => Array.from(crypto.getRandomValues(new Uint32Array(4)), (n) => n.toString(36)).join('');

/** Reports whether a write with this error may have taken effect. Every other refusal comes before the write. */
export function isUnknown(error: unknown): boolean {
  if (!(error instanceof ApiError)) return true;
  return error.status === 0 || error.status >= 500 || error.reason === 'Unknown';
}

/** Reports whether the server refused the request before it looked at it, so that the same request may follow. */
export function isEarly(error: unknown): boolean {
  return error instanceof ApiError && (error.status === 401 || error.status === 429);
}
