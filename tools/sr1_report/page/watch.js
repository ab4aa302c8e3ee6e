// ---- a page of sr1-report --serve: reload it when there is a newer one ----

const watchMs = 5000;

function watch() {
    if (!location.protocol.startsWith('http')) return;
    const place = sessionStorage.getItem('place');
    if (place !== null) scrollTo(0, Number(place));
    setInterval(async () => {
        if (document.hidden || document.activeElement?.tagName === 'INPUT') return;
        try {
            const made = Number(await (await fetch('made')).text());
            if (!(made > data.made)) return;
            sessionStorage.setItem('place', scrollY);
            location.reload();
        } catch {
            // The server has ended: the page stays as it is.
        }
    }, watchMs);
}

watch();
