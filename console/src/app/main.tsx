/**
 * The composition root of the console: cache, router, theme, and the redirect to sign-in when a
 * session ends.
 */
import '@fontsource-variable/inter';
import '@fontsource-variable/jetbrains-mono';
import '@mantine/core/styles.layer.css';
import '@mantine/notifications/styles.layer.css';
import './global.css';
import { MantineProvider } from '@mantine/core';
import { QueryCache, QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { RouterProvider } from '@tanstack/react-router';
import { createRoot } from 'react-dom/client';
import { systemClock } from '../../../src/base/clock.ts';
import { isSignedOut, problemOf } from '../api/failure.ts';
import { retryFailedQueries } from '../api/retry-policy.ts';
import { cssVariables, theme } from '../ui/theme.ts';
import { Notices } from './Notices.tsx';
import { createConsoleRouter } from './router.tsx';

const retryLater = retryFailedQueries(systemClock);

const queryClient = new QueryClient({
  queryCache: new QueryCache({
    onError: (error, query) => {
      if (isSignedOut(error)) void redirectToSignIn();
      retryLater(error, query);
    },
  }),
  defaultOptions: {
    queries: {
      // The stream keeps data fresh, so queries do not poll by default.
      staleTime: Number.POSITIVE_INFINITY,
      refetchOnWindowFocus: false,
      // Patched values keep their identity, so a deep comparison of the whole fleet is not needed.
      structuralSharing: false,
      // A request without an answer is retried three times before its error is shown. A refusal is
      // shown immediately. After either, api/retry-policy.ts decides whether to retry later.
      retry: (failures, error) => problemOf(error) === null && failures < 3,
    },
  },
});

const router = createConsoleRouter(queryClient);

async function redirectToSignIn(): Promise<void> {
  const { pathname, href } = router.state.location;
  if (pathname === '/sign-in') return;
  await router.navigate({ to: '/sign-in', search: { next: href }, replace: true });
  queryClient.clear();
}

const root = document.getElementById('root');
if (!root) throw new Error('index.html has no #root');
createRoot(root).render(
  <MantineProvider theme={theme} cssVariablesResolver={cssVariables} defaultColorScheme="auto">
    <QueryClientProvider client={queryClient}>
      <RouterProvider router={router} />
    </QueryClientProvider>
    <Notices />
  </MantineProvider>,
);
