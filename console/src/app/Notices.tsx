/** Shows notices; loads with the first one. */
import { useSyncExternalStore } from 'react';
import { part, usePart } from '../ui/loading/lazy-part.tsx';
import { areNoticesWanted, loadNotices, watchNotices } from '../ui/notices.ts';

const shown = part<{ position: 'bottom-right' }>(async () => (await loadNotices()).Notifications);

export function Notices() {
  const wanted = useSyncExternalStore(watchNotices, areNoticesWanted);
  const { Part: Shown } = usePart(shown, wanted);
  return wanted && Shown ? <Shown position="bottom-right" /> : null;
}
