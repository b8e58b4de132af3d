/** Shown instead of a page that failed. Retries by itself when the server answers again. */
import { Button, Center, Stack } from '@mantine/core';
import { useRouter } from '@tanstack/react-router';
import { useEffect } from 'react';
import { systemClock } from '../../../../src/base/clock.ts';
import { failureOf, retryAfterSeconds } from '../../api/failure.ts';
import { waitForServer } from '../../api/server-back.ts';
import { FailurePanel } from '../layout/FailurePanel.tsx';

const unreachableRetrySeconds = 2;

export function FailedPage({ error }: { error: unknown }) {
  const router = useRouter();
  useEffect(() => {
    const isUnreachable = failureOf(error).owner_layer === 'transport';
    const retrySeconds = isUnreachable ? unreachableRetrySeconds : retryAfterSeconds(error);
    if (retrySeconds === null) return;
    const unmounted = new AbortController();
    void waitForServer(systemClock, retrySeconds * 1000, unmounted.signal).then(() => {
      if (!unmounted.signal.aborted) void router.invalidate();
    });
    return () => unmounted.abort();
  }, [error, router]);
  return (
    <Center mih="60vh" p="md">
      <Stack maw="36rem" w="100%" align="flex-start">
        <FailurePanel error={error} />
        <Button onClick={() => void router.invalidate()}>Try again</Button>
      </Stack>
    </Center>
  );
}
