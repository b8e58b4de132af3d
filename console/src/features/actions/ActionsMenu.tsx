/** The menu of actions that the server offers: open, drastic, and closed with the reason. */

import { Button, Menu } from '@mantine/core';
import { IconAlertTriangle, IconChevronDown } from '@tabler/icons-react';
import type { ReactNode } from 'react';
import type { Offer } from '../../../../src/lifecycle/actions/action-table.ts';
import { toSentence } from '../../ui/text.ts';
import styles from './ActionsMenu.module.css';
import { actionLabel, groupOffers } from './words.ts';

interface Props<Name extends string> {
  offers: readonly Offer<Name>[];
  onChoose: (offer: Offer<Name>) => void;
  labelOf?: (action: Name) => string;
}

export function ActionsMenu<Name extends string>({ offers, onChoose, labelOf = actionLabel }: Props<Name>) {
  const { open, drastic, closed } = groupOffers(offers);
  return (
    <Menu
      position="bottom-end"
      shadow="md"
      width="min(24rem, calc(100vw - 2rem))"
      // Inside the page's landmarks, and only its items take the focus.
      withinPortal={false}
      withInitialFocusPlaceholder={false}
      classNames={{ dropdown: styles.dropdown, item: styles.item }}
    >
      <Menu.Target>
        <Button variant="default" rightSection={<IconChevronDown size={15} aria-hidden />}>
          Actions
        </Button>
      </Menu.Target>
      <Menu.Dropdown>
        <OfferGroup name="Open now" of={open}>
          {(offer) => (
            <Menu.Item key={offer.action} onClick={() => onChoose(offer)}>
              <Words label={labelOf(offer.action)} says={offer.does} />
            </Menu.Item>
          )}
        </OfferGroup>
        <OfferGroup name="With care" of={drastic}>
          {(offer) => (
            <Menu.Item
              key={offer.action}
              data-drastic
              leftSection={<IconAlertTriangle size={15} aria-hidden />}
              onClick={() => onChoose(offer)}
            >
              <Words label={labelOf(offer.action)} says={offer.does} />
            </Menu.Item>
          )}
        </OfferGroup>
        <OfferGroup name="Not now" of={closed}>
          {/* Not `disabled`: closed actions stay reachable by keyboard, so that their reason can be read. */}
          {(offer) => (
            <Menu.Item key={offer.action} aria-disabled closeMenuOnClick={false} title={toSentence(offer.does)}>
              <Words label={labelOf(offer.action)} says={offer.why_not ?? ''} />
            </Menu.Item>
          )}
        </OfferGroup>
      </Menu.Dropdown>
    </Menu>
  );
}

interface OfferGroupProps<Name extends string> {
  name: string;
  of: Offer<Name>[];
  children: (offer: Offer<Name>) => ReactNode;
}

function OfferGroup<Name extends string>({ name, of, children }: OfferGroupProps<Name>) {
  if (of.length === 0) return null;
  return (
    // biome-ignore lint/a11y/useSemanticElements: a fieldset is nothing that a menu may hold.
    <div role="group" aria-label={name} className={styles.group}>
      <Menu.Label aria-hidden>{name}</Menu.Label>
      {of.map(children)}
    </div>
  );
}

const Words = ({ label, says }: { label: string; says: string }) => (
  <>
    <span className={styles.label}>{label}</span>
    <span className={styles.says}>{toSentence(says)}</span>
  </>
);
