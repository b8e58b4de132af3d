/** Loads the next page of a list. */
import { Button, Center } from '@mantine/core';

interface Props {
  list: { hasNextPage: boolean; isFetchingNextPage: boolean; fetchNextPage: () => Promise<unknown> };
}

export const LoadMore = ({ list: { hasNextPage, isFetchingNextPage, fetchNextPage } }: Props) =>
  hasNextPage ? (
    <Center p="sm">
      <Button variant="default" size="xs" loading={isFetchingNextPage} onClick={() => void fetchNextPage()}>
        Show older
      </Button>
    </Center>
  ) : null;
