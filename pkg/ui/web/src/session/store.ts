import { useSyncExternalStore } from 'react';
import { ApiError, getJSON, messageOf, postJSON, request, setCSRF, whenSignedOut } from '../api/client';
import { queryClient } from '../api/queries';
import type { Session } from '../api/types';

export type SessionState =
  | { phase: 'loading' }
  | { phase: 'unreachable'; error: string }
  | { phase: 'signedOut'; note?: string }
  | { phase: 'signedIn'; session: Session };

let state: SessionState = { phase: 'loading' };
const listeners = new Set<() => void>();

function set(next: SessionState) {
  setCSRF(next.phase === 'signedIn' ? next.session : undefined);
  state = next;
  listeners.forEach((listener) => listener());
}

export function useSessionState(): SessionState {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    () => state,
  );
}

whenSignedOut(() => {
  if (state.phase === 'signedIn')
    set({ phase: 'signedOut', note: 'Your session has ended. Sign in to continue here.' });
});

/** Signs in with the token in the URL's fragment, which "drover ui" prints, or continues a session. */
export async function startSession() {
  const token = takeTokenFromURL();
  try {
    set({ phase: 'signedIn', session: token ? await post(token) : await getJSON<Session>('session') });
  } catch (error) {
    if (error instanceof ApiError && error.status === 401)
      set({ phase: 'signedOut', note: token && messageOf(error) });
    else set({ phase: 'unreachable', error: messageOf(error) });
  }
}

/** The token leaves the address bar and the history at once. */
function takeTokenFromURL(): string | undefined {
  const token = new URLSearchParams(location.hash.slice(1)).get('token') ?? undefined;
  if (token) history.replaceState(history.state, '', location.pathname + location.search);
  return token;
}

const post = (token: string) => postJSON<Session>('session', { token });

export async function signIn(token: string) {
  const session = await post(token);
  // The answers can belong to another user.
  queryClient.clear();
  set({ phase: 'signedIn', session });
}

export async function signOut() {
  await request('session', { method: 'DELETE' });
  queryClient.clear();
  set({ phase: 'signedOut' });
}
