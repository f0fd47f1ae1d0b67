import { Link, Outlet, type ErrorComponentProps } from '@tanstack/react-router';
import { lazy, Suspense, useEffect } from 'react';
import { Failure, Notice } from '../components/Notice';
import { connection } from '../live/hooks';
import { useChosenNamespaces, useNamespaces } from '../session/namespaces';
import { startSession, useSessionState } from '../session/store';
import { Shell, useTitle } from './Shell';
import { UnsavedGuard } from './Unsaved';

const SignIn = lazy(() => import('../session/SignIn'));
const SignInAgain = lazy(() => import('../session/SignInAgain'));
const NamespaceChooser = lazy(() => import('../session/NamespaceChooser'));

/** Shows the page of the URL to a user who has signed in. Otherwise it asks for that first, and the URL stays. */
export function App() {
  const state = useSessionState();
  switch (state.phase) {
    case 'loading':
      return null;
    case 'unreachable':
      return (
        <main className="alone">
          <Failure error={state.error} retry={startSession} />
        </main>
      );
    case 'signedOut':
      return (
        <Suspense>
          <SignIn note={state.note} />
        </Suspense>
      );
    case 'signedIn':
      return (
        <>
          <SignedIn key={state.session.user} />
          {state.expired && (
            <Suspense>
              <SignInAgain user={state.session.user} />
            </Suspense>
          )}
        </>
      );
  }
}

function SignedIn() {
  const { data, error, refetch } = useNamespaces();
  const chosen = useChosenNamespaces();
  const namespaces = data?.all ? '*' : chosen;
  const selected = data ? namespaces : '';
  useEffect(() => (selected ? connection.open(selected) : undefined), [selected]);
  if (!data)
    return error ? (
      <main className="alone">
        <Failure error={error} retry={refetch} />
      </main>
    ) : null;
  if (!namespaces)
    return (
      <Shell>
        <Suspense>
          <NamespaceChooser />
        </Suspense>
      </Shell>
    );
  return (
    <Shell canChoose={!data.all}>
      <Suspense>
        <Outlet />
      </Suspense>
      <UnsavedGuard />
    </Shell>
  );
}

export function NotFound() {
  useTitle('No such page');
  return (
    <>
      <h1 className="visually-hidden">No such page</h1>
      <Notice tone="off" action={<Link to="/clusters">Show all clusters</Link>}>
        This page does not exist.
      </Notice>
    </>
  );
}

export function PageError({ error, reset }: ErrorComponentProps) {
  return <Failure error={error} retry={reset} />;
}
