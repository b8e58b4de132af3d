/** Shows who is signed in; its menu loads on demand. */
import { useState } from 'react';
import type { Session } from '../../../src/contract/security/token.ts';
import { createPart, usePart } from '../ui/loading/lazy-part.tsx';
import { AccountFace } from './AccountFace.tsx';

interface Props {
  session: Session;
  onHelp: () => void;
}

const menu = createPart<Props>(async () => (await import('./AccountMenu.tsx')).AccountMenu);

export function Account({ session, onHelp }: Props) {
  const [isWanted, setIsWanted] = useState(false);
  const { Part: AccountMenu } = usePart(menu, isWanted);
  return isWanted && AccountMenu ? (
    <AccountMenu session={session} onHelp={onHelp} />
  ) : (
    <AccountFace
      session={session}
      aria-haspopup="menu"
      aria-expanded={false}
      onPointerEnter={() => void menu.load().catch(() => {})}
      onClick={() => setIsWanted(true)}
    />
  );
}
