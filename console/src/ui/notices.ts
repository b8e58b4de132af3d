/**
 * Shows short notices, which disappear by themselves unless they report a failure. The library
 * loads with the first notice.
 */
import { failureOf } from '../api/failure.ts';

const closeButtonProps = { 'aria-label': 'Close' };

type NoticeLibrary = typeof import('@mantine/notifications');
export const loadNotices = (): Promise<NoticeLibrary> => import('@mantine/notifications');

let isWanted = false;
const watchers = new Set<() => void>();
export const areNoticesWanted = (): boolean => isWanted;
export const watchNotices = (watcher: () => void): (() => void) => {
  watchers.add(watcher);
  return () => watchers.delete(watcher);
};

async function show(notice: Parameters<NoticeLibrary['notifications']['show']>[0]): Promise<void> {
  isWanted = true;
  for (const watcher of watchers) watcher();
  (await loadNotices()).notifications.show({ ...notice, closeButtonProps });
}

export const notify = {
  done: (message: string) => void show({ message, color: 'teal', autoClose: 4000 }),
  started: (message: string) => void show({ message, color: 'blue', autoClose: 6000 }),
  failed: (title: string, error: unknown) => {
    const { detail, remedy, correlation_id } = failureOf(error);
    const message = [detail, remedy, correlation_id && `Correlation id ${correlation_id}`].filter(Boolean).join(' ');
    void show({ title, message, color: 'red', autoClose: false });
  },
};
