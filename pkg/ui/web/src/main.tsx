import { MantineProvider } from '@mantine/core';
import { QueryClientProvider } from '@tanstack/react-query';
import { RouterProvider } from '@tanstack/react-router';
import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import './mantine.css';
import './styles.css';
import { queryClient } from './api/queries';
import { router } from './router';
import { startSession } from './session/store';
import { styleNonce, theme } from './theme';

// It also takes the token out of the address, before the first page renders.
void startSession();

// After an upgrade of the server, the files of this page's version are gone. A second failure is another problem.
window.addEventListener('vite:preloadError', () => {
  const key = 'drover.reloaded';
  if (Date.now() - Number(sessionStorage.getItem(key)) < 60_000) return;
  sessionStorage.setItem(key, String(Date.now()));
  location.reload();
});

createRoot(document.getElementById('root')!).render(
  <StrictMode>
    <MantineProvider theme={theme} defaultColorScheme="auto" getStyleNonce={() => styleNonce}>
      <QueryClientProvider client={queryClient}>
        <RouterProvider router={router} />
      </QueryClientProvider>
    </MantineProvider>
  </StrictMode>,
);
