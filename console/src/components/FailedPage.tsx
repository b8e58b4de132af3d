/** What stands where a page should be, when it could not be shown at all. */
import { Button, Center, Stack } from '@mantine/core';
import { useRouter } from '@tanstack/react-router';
import { FailurePanel } from './FailurePanel.tsx';

export function FailedPage({ error }: { error: unknown }) {
  const router = useRouter();
  return (
    <Center mih="60vh" p="md">
      <Stack maw="36rem" w="100%" align="flex-start">
        <FailurePanel error={error} />
        <Button onClick={() => void router.invalidate()}>Try again</Button>
      </Stack>
    </Center>
  );
}
