/**
 * Counts open dialogs. A search of the DOM would also find a closed dialog, which stays there for
 * some frames, and global keys pressed meanwhile would be ignored.
 */
import { useLayoutEffect } from 'react';

let openCount = 0;

export const isDialogOpen = (): boolean => openCount > 0;

export function useOpenDialog(isOpen: boolean): void {
  useLayoutEffect(() => {
    if (!isOpen) return;
    openCount++;
    return () => {
      openCount--;
    };
  }, [isOpen]);
}
