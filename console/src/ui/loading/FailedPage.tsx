/** Shown instead of a page that failed. Retries by itself once the server answers. */
import { Button, Center, Stack } from '@mantine/core';
import { useRouter } from '@tanstack/react-router';
import { useEffect } from 'react';
import { systemClock } from '../../../../src/base/clock.ts';
import { failureOf, retryAfterSeconds } from '../../api/failure.ts';
import { untilServerAnswers } from '../../api/server-back.ts';
import { FailurePanel } from '../layout/FailurePanel.tsx';

const silentSeconds = 2;

export function FailedPage({ error }: { error: unknown }) {
  const router = useRouter();
  useEffect(() => {
    const isSilence = failureOf(error).owner_layer === 'transport';
    const againSeconds = isSilence ? silentSeconds : retryAfterSeconds(error);
    if (againSeconds === null) return;
    const left = new AbortController();
    void untilServerAnswers(systemClock, againSeconds * 1000, left.signal).then(() => {
      if (!left.signal.aborted) void router.invalidate();
    });
    return () => left.abort();
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
