/** Loads the next page of a list. */
import { Button, Center } from '@mantine/core';

interface Props {
  list: { hasNextPage: boolean; isFetchingNextPage: boolean; fetchNextPage: () => Promise<unknown> };
  /** For lists that are not ordered by time. */
  label?: string;
}

export const LoadMore = ({ list: { hasNextPage, isFetchingNextPage, fetchNextPage }, label = 'Show older' }: Props) =>
  hasNextPage ? (
    <Center p="sm">
      <Button variant="default" size="xs" loading={isFetchingNextPage} onClick={() => void fetchNextPage()}>
        {label}
      </Button>
    </Center>
  ) : null;
