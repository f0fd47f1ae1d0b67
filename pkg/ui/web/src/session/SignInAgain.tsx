import { Button } from '@mantine/core';
import { Dialog } from '../components/Dialog';
import { leave } from './store';
import { TokenForm } from './TokenForm';

/** Asks for a token over the page when the session has ended. The page keeps what the user typed. */
export default function SignInAgain({ user }: { user: string }) {
  return (
    <Dialog title="Sign in to continue">
      <p>
        Your session has ended. The page keeps what you typed. Sign in as <b>{user}</b> to continue. If you sign in as
        another user, the page starts again.
      </p>
      <TokenForm>
        <Button variant="subtle" color="gray" onClick={leave} fullWidth mt="xs">
          Leave the page
        </Button>
      </TokenForm>
    </Dialog>
  );
}
