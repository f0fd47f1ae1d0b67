import { Button, PasswordInput } from '@mantine/core';
import { useState, type FormEvent, type ReactNode } from 'react';
import { messageOf } from '../api/client';
import { sentence } from '../components/Command';
import { signIn } from './store';

/** The field for a token, and the button that signs in with it. */
export function TokenForm({ className, children }: { className?: string; children?: ReactNode }) {
  const [token, setToken] = useState('');
  const [error, setError] = useState('');
  const [busy, setBusy] = useState(false);

  async function submit(event: FormEvent) {
    event.preventDefault();
    setBusy(true);
    setError('');
    try {
      await signIn(token.trim());
    } catch (e) {
      setError(sentence(messageOf(e)));
      setBusy(false);
    }
  }

  return (
    <form className={className} onSubmit={submit}>
      <PasswordInput
        label="Token"
        description="A bearer token of the management cluster"
        value={token}
        error={error}
        aria-invalid={!!error}
        onChange={(event) => setToken(event.currentTarget.value)}
        autoComplete="off"
        autoFocus
        required
        withAsterisk={false}
        visibilityToggleButtonProps={{ 'aria-label': 'Show the token' }}
      />
      <Button type="submit" loading={busy} disabled={!token.trim()} fullWidth mt="md">
        Sign in
      </Button>
      {children}
    </form>
  );
}
