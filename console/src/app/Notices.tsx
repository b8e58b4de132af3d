/** Shows notices; loads with the first one. */
import { useSyncExternalStore } from 'react';
import { part, usePart } from '../ui/loading/lazy-part.tsx';
import { areNoticesWanted, loadNotices, watchNotices } from '../ui/notices.ts';

const notices = part<{ position: 'bottom-right' }>(async () => (await loadNotices()).Notifications);

export function Notices() {
  const wanted = useSyncExternalStore(watchNotices, areNoticesWanted);
  const { Part: NoticeList } = usePart(notices, wanted);
  return wanted && NoticeList ? <NoticeList position="bottom-right" /> : null;
}
