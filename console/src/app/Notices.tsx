/** Shows notices. The library loads with the first notice. */
import { useSyncExternalStore } from 'react';
import { createPart, usePart } from '../ui/loading/lazy-part.tsx';
import { areNoticesWanted, loadNotices, watchNotices } from '../ui/notices.ts';

const notices = createPart<{ position: 'bottom-right' }>(async () => (await loadNotices()).Notifications);

export function Notices() {
  const isWanted = useSyncExternalStore(watchNotices, areNoticesWanted);
  const { Part: NoticeList } = usePart(notices, isWanted);
  return isWanted && NoticeList ? <NoticeList position="bottom-right" /> : null;
}
