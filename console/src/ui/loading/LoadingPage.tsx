/** Shown while a page takes noticeably long to load. */
import { Center, Loader } from '@mantine/core';

export function LoadingPage() {
  return (
    <Center mih="60vh" role="status" aria-label="Loading">
      <Loader size="sm" />
    </Center>
  );
}
