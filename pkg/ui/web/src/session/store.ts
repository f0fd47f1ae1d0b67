import { useSyncExternalStore } from 'react';
import { ApiError, getJSON, messageOf, postJSON, request, setCSRF, whenSignedOut } from '../api/client';
import { queryClient } from '../api/queries';
import type { Session } from '../api/types';
import { forgetUnsaved } from '../lib/unsaved';
import { connection } from '../live/hooks';

export type SessionState =
  | { phase: 'loading' }
  | { phase: 'unreachable'; error: string }
  | { phase: 'signedOut'; note?: string }
  /** Expired means that the session has ended, but the page stays: it can hold what the user typed. */
  | { phase: 'signedIn'; session: Session; expired?: boolean };

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
  if (state.phase === 'signedIn' && !state.expired) set({ ...state, expired: true });
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
  if (state.phase !== 'signedIn') {
    // The answers can belong to another user.
    queryClient.clear();
    set({ phase: 'signedIn', session });
  } else if (session.user === state.session.user) {
    set({ phase: 'signedIn', session });
    connection.resume();
    await queryClient.invalidateQueries();
  } else {
    // What is on the page belongs to another user.
    forgetUnsaved();
    location.reload();
  }
}

/** Leaves the page of a session that has ended. */
export function leave() {
  queryClient.clear();
  set({ phase: 'signedOut' });
}

export async function signOut() {
  await request('session', { method: 'DELETE' });
  queryClient.clear();
  set({ phase: 'signedOut' });
}
