/** Exchanges a token for a session, and explains where to find the first token. */
import { Button, PasswordInput, Stack, Text, Title } from '@mantine/core';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { getRouteApi, useRouter } from '@tanstack/react-router';
import { type FormEvent, useState } from 'react';
import { call } from '../../api/client.ts';
import { sessionQuery } from '../../api/session.ts';
import { Brand } from '../../ui/layout/Brand.tsx';
import { FailurePanel } from '../../ui/layout/FailurePanel.tsx';
import styles from './SignInPage.module.css';

const route = getRouteApi('/sign-in');

/**
 * Follows only paths within the console, so a link cannot redirect a signed-in person elsewhere.
 */
const safeNext = (next: string | undefined): string => (next?.startsWith('/') && !next.startsWith('//') ? next : '/');

export function SignInPage() {
  const { next } = route.useSearch();
  const router = useRouter();
  const cache = useQueryClient();
  const [token, setToken] = useState('');
  const mutation = useMutation({
    mutationFn: () => call('session-create', { body: { token: token.trim() } }),
    onSuccess: (session) => {
      cache.setQueryData(sessionQuery.queryKey, session);
      router.history.push(safeNext(next));
    },
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    mutation.mutate();
  };

  return (
    <main className={styles.page}>
      <title>Sign in · Slipway</title>
      <div className={styles.card}>
        <Brand large />
        <div>
          <Title order={1} className={styles.title}>
            Sign in
          </Title>
          <Text c="dimmed">Every machine makes progress, serves, or carries a verdict.</Text>
        </div>
        <form onSubmit={submit}>
          <Stack gap="md">
            <PasswordInput
              label="Token"
              placeholder="Paste a token"
              value={token}
              onChange={(event) => setToken(event.currentTarget.value)}
              autoComplete="current-password"
              size="md"
              required
              withAsterisk={false}
              autoFocus
            />
            {mutation.error && <FailurePanel error={mutation.error} />}
            <Button type="submit" size="md" fullWidth loading={mutation.isPending} disabled={token.trim() === ''}>
              Sign in
            </Button>
          </Stack>
        </form>
        <div className={styles.hint}>
          <Text fw={560} size="sm">
            Where is my token?
          </Text>
          <Text size="sm" c="dimmed">
            The first start writes the admin token into the server's data directory. On the machine that runs the
            server:
          </Text>
          <pre className={styles.command}>cat .slipway/admin.token</pre>
          <Text size="sm" c="dimmed">
            Elsewhere it is <code>&lt;data-dir&gt;/admin.token</code>, or the value of <code>SLIPWAY_ADMIN_TOKEN</code>.
            Admins create further tokens with <code>slipway tokens</code>.
          </Text>
        </div>
      </div>
    </main>
  );
}
