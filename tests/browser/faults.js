// Returns what is wrong with the layout of the page in this window, and the headings.
(() => {
	const faults = [];
	const fault = (what, text) => faults.push(what + ": " + text.trim().replace(/\s+/g, " ").slice(0, 80));
	const seen = e => e.checkVisibility({ visibilityProperty: true });
	const leastHeight = 8, leastContrast = 4.5, slack = 1;

	// Every text that is seen, with the boxes of its lines.
	const texts = () => {
		const out = [];
		const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
		while (walk.nextNode()) {
			const node = walk.currentNode, of = node.parentElement;
			if (!node.data.trim() || ["SCRIPT", "STYLE", "title"].includes(of.tagName) || !seen(of)) continue;
			const range = document.createRange();
			range.selectNodeContents(node);
			const boxes = of.namespaceURI.endsWith("svg") ? [of.getBoundingClientRect()] : [...range.getClientRects()];
			out.push({ node, of, text: node.data, boxes: boxes.filter(b => b.width > 0 && b.height > 0) });
		}
		return out;
	};
	const scroller = e => {
		for (; e && e !== document.body; e = e.parentElement) if (["auto", "scroll"].includes(getComputedStyle(e).overflowX)) return e;
		return null;
	};
	const meets = (a, b) => a.left + slack < b.right && b.left + slack < a.right && a.top + 2 * slack < b.bottom && b.top + 2 * slack < a.bottom;

	// Colours, as CSS computes them.
	const colour = text => (text.match(/[\d.]+/g) || []).map(Number);
	const luminance = ([r, g, b]) => {
		const f = v => (v /= 255, v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
		return 0.2126 * f(r) + 0.7152 * f(g) + 0.0722 * f(b);
	};
	const ground = e => {
		for (; e; e = e.parentElement) {
			const c = colour(getComputedStyle(e).backgroundColor);
			if (c.length === 3 || c[3] > 0) return c;
		}
		return [255, 255, 255];
	};
	const contrast = e => {
		const svg = e.closest("svg");
		const a = luminance(colour(svg ? getComputedStyle(e).fill : getComputedStyle(e).color)), b = luminance(svg ? [255, 255, 255] : ground(e));
		return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
	};

	const look = () => {
		const wide = document.documentElement.clientWidth;
		if (document.documentElement.scrollWidth > wide) fault("the page scrolls sideways", document.documentElement.scrollWidth + " of " + wide + " pixels");
		const all = texts();
		for (const t of all) {
			const style = getComputedStyle(t.of), svg = t.of.closest("svg"), frame = svg && svg.getBoundingClientRect();
			for (const b of t.boxes) {
				if (!scroller(t.of) && (b.left < -slack || b.right > wide + slack)) fault("text outside the window", t.text);
				if (svg && (b.left < frame.left - slack || b.right > frame.right + slack || b.top < frame.top - slack || b.bottom > frame.bottom + slack)) fault("text outside its picture", t.text);
				if (svg && Math.min(b.width, b.height) < leastHeight && t.text.length > 1) fault("text too small", t.text);
			}
			if (!svg && !scroller(t.of) && style.display !== "inline" && t.of.scrollWidth > t.of.clientWidth + slack) fault("text outside its box", t.text);
			if (contrast(t.of) < leastContrast) fault("contrast " + contrast(t.of).toFixed(1), t.text);
		}
		const lines = all.filter(t => !t.of.closest("pre"));
		for (let i = 0; i < lines.length; i++)
			for (let j = 0; j < i; j++)
				if (lines[i].boxes.some(a => lines[j].boxes.some(b => meets(a, b)))) fault("texts overlap", lines[i].text + " | " + lines[j].text);
	};
	look();
	for (const d of document.querySelectorAll("details")) d.open = true;
	look();
	const headings = [...document.querySelectorAll("h1, h2, summary")].map(h => h.textContent);
	return { faults: [...new Set(faults)], headings };
})()
